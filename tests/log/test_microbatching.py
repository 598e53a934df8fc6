"""What coroutines ask for in passes of their event loop is handed over together, and each gets its own result."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from log.world import contexts, make_agent, make_log

import lim2
from lim2.log import LogError, TakenIdError
from lim2.log.microbatching import Microbatcher


def test_what_is_asked_for_is_handed_over_after_a_pass_of_the_loop_without_more() -> None:
    handed: list[list[int]] = []
    batcher: Microbatcher[int] = Microbatcher(handed.append, max_size=4)

    async def add(number: int) -> None:
        batcher.add(number, asyncio.get_running_loop())

    async def main() -> None:
        await add(0)
        await add(1)
        await passes(1)
        await add(2)  # a pass later
        await passes(1)
        assert handed == []
        await passes(1)
        assert handed == [[0, 1, 2]]
        await asyncio.gather(*map(add, range(10)))  # four are handed over at once
        await passes(2)
        assert handed[1:] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]

    asyncio.run(main())
    left = asyncio.new_event_loop()
    batcher.add(10, left)
    left.close()  # before it could hand over what it had
    asyncio.run(main_of_another(batcher))  # another one is not kept from it
    assert handed[-1] == [11]


async def main_of_another(batcher: Microbatcher[int]) -> None:
    batcher.add(11, asyncio.get_running_loop())
    await passes(2)


async def passes(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_decisions_of_one_pass_are_one_hand_over_and_each_has_its_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, given = make_agent(), contexts(9)
    with make_log(tmp_path) as log:
        group: Any = getattr(log.store._current(), "group", None)  # type: ignore[attr-defined]
        if group is None:
            pytest.skip("the store has a group for each kind of work")
        sizes: list[int] = []
        add = group._add

        def counted(requests: list[Any]) -> None:
            sizes.append(len(requests))
            add(requests)

        monkeypatch.setattr(group, "_add", counted)

        async def main() -> list[Any]:
            decisions = [agent.decide(x) for x in given]
            names = [f"d{place % 8}" for place in range(9)]  # one is there twice
            records = (log.arecord(made, x, id=name) for made, x, name in zip(decisions, given, names, strict=True))
            return await asyncio.gather(*records, return_exceptions=True)

        made = asyncio.run(main())
        assert sizes == [9]
        assert [one.id for one in made[:8]] == [f"d{place}" for place in range(8)]
        assert isinstance(made[8], TakenIdError)
        assert len(log.pending()) == 8


def test_what_a_closed_log_is_asked_for_is_refused(tmp_path: Path) -> None:
    agent, (x, y) = make_agent(), contexts(2)
    log = make_log(tmp_path)

    async def closes_before() -> None:
        log.close()
        with pytest.raises(LogError, match="closed"):
            await log.arecord(agent.decide(x), x)

    async def closes_meanwhile(log: lim2.DecisionLog) -> None:
        recorded = asyncio.ensure_future(log.arecord(agent.decide(y), y))
        asyncio.get_running_loop().call_soon(log.close)  # between the request and its hand-over
        with pytest.raises(LogError, match="closed"):
            await recorded

    asyncio.run(closes_before())
    other = make_log(tmp_path)
    asyncio.run(closes_meanwhile(other))
    with make_log(tmp_path) as again:
        assert not again.pending()
