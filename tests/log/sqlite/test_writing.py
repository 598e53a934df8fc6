"""Writing to the file: one statement for a group of decisions, and checkpoints of the WAL file beside the writers."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from log.sqlite.raw_sql import reading, sql, writing
from log.world import N_FEATURES, contexts, make_agent, make_log

import lim2
from lim2.log import LogError, TakenIdError
from lim2.log.sqlite import store as stores
from lim2.log.sqlite import tables
from lim2.log.sqlite.opening import AUTOCHECKPOINT_PAGES

X = np.ones(N_FEATURES)


def in_the_file_alone(folder: Path) -> int:
    """Return how many decisions the database has without its WAL file."""
    copy = folder / "copy.db"
    shutil.copy(folder / "decisions.db", copy)
    connection = sqlite3.connect(copy)
    found: int = connection.execute("SELECT count(*) FROM decisions").fetchone()[0]
    connection.close()
    return found


def record(log: lim2.DecisionLog, count: int) -> None:
    agent = make_agent()
    for _ in range(count):
        log.decide(agent, X)


def test_what_was_written_comes_into_the_database_and_the_wal_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "MIN_PAGES_TO_FINISH", 1)
    wal = tmp_path / "decisions.db-wal"
    with make_log(tmp_path) as log:
        record(log, 20)
        assert in_the_file_alone(tmp_path) == 0
        log.store.checkpoint()
        assert in_the_file_alone(tmp_path) == 20
        size = wal.stat().st_size
        record(log, 10)
        assert wal.stat().st_size == size  # from its start
        log.store.checkpoint()
        log.store.checkpoint()  # with nothing new
        assert len(log.pending()) == in_the_file_alone(tmp_path) == 30


def test_nobody_waits_for_those_who_read_or_write(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        record(log, 3)
        for connection, begin in ((reading(log), "BEGIN"), (writing(log), "BEGIN IMMEDIATE")):
            connection.execute(begin)
            connection.execute("SELECT count(*) FROM decisions").fetchone()
            log.store.checkpoint()
            connection.execute("ROLLBACK")
            record(log, 1)
        assert len(log.pending()) == 5
        assert writing(log).execute("PRAGMA wal_autocheckpoint").fetchone()[0] == AUTOCHECKPOINT_PAGES


def test_what_comes_meanwhile_is_copied_while_writers_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MIN_PAGES_TO_FINISH", 1)
    checkpointed, calls = stores._checkpointed, []

    def slow(beside: sqlite3.Connection) -> int:
        """Somebody writes after the first part; in the second part, nobody can."""
        calls.append(writing(log).in_transaction)
        pages = checkpointed(beside)
        if len(calls) == 1:
            record(log, 1)
        return pages

    with make_log(tmp_path) as log:
        record(log, 20)
        monkeypatch.setattr(stores, "_checkpointed", slow)
        log.store.checkpoint()
        assert calls == [False, True]
        assert in_the_file_alone(tmp_path) == 21


@pytest.mark.parametrize("gone", ["decisions.db", "decisions.db-wal"])
def test_a_file_that_is_gone_is_not_made_anew(tmp_path: Path, gone: str) -> None:
    with make_log(tmp_path) as log:
        record(log, 1)
        (tmp_path / gone).unlink()
        with pytest.raises(LogError):
            log.store.checkpoint()
        assert not (tmp_path / gone).exists()


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
