"""Decisions of one group are written by one statement; whoever reads within the group finds them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from log.sqlite.raw_sql import sql, writing
from log.world import contexts, make_agent, make_log

from lim2.log import TakenIdError
from lim2.log.sqlite import tables


def test_a_group_is_one_statement_and_keeps_its_order(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(tables, "ROWS_PER_INSERT", 3)
    agent, given = make_agent(), contexts(7)
    statements: list[str] = []

    async def main() -> list[Any]:
        decisions = [agent.decide(x) for x in given]
        return await asyncio.gather(*(log.arecord(made, x) for made, x in zip(decisions, given, strict=True)))

    with make_log(tmp_path) as log:
        writing(log).set_trace_callback(statements.append)
        made = asyncio.run(main())
        writing(log).set_trace_callback(None)
        inserts = {one for one in statements if one.startswith("INSERT INTO decisions")}  # triggers show theirs again
        assert len(inserts) == 3
        assert [id for (id,) in sql(log, "SELECT id FROM decisions ORDER BY seq")] == [one.id for one in made]
        assert len(log.pending()) == log.state.pending == 7


def test_what_is_kept_back_is_written_before_anything_else_and_not_after_a_failure(tmp_path: Path) -> None:
    agent, given = make_agent(), contexts(4)

    async def main(again: bool) -> list[Any]:
        first, second, third, fourth = ((agent.decide(x), x) for x in given)
        asked = [log.arecord(*first), log.arecord(*second, id="x"), log.areward("x", 1.0), log.arecord(*third)]
        if again:
            asked.append(log.arecord(*fourth, id="x"))  # fails, so that all are done once more, each for itself
        return await asyncio.gather(*asked, return_exceptions=True)

    statements: list[str] = []
    with make_log(tmp_path) as log:
        writing(log).set_trace_callback(statements.append)
        assert asyncio.run(main(again=False))[2] == "recorded"
        writing(log).set_trace_callback(None)
        assert statements and "SAVEPOINT request" not in statements  # nothing had to be done once more
        found = asyncio.run(main(again=True))
        assert [type(one) for one in (found[1], found[4])] == [TakenIdError, TakenIdError]
        assert found[2] == "duplicate"
        assert {one.id for one in log.pending()} >= {found[0].id, found[3].id}
        assert sql(log, "SELECT count(*) FROM decisions") == [(5,)]
