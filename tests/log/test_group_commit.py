"""Threads and coroutines that write at the same time share a transaction; each gets its own result or error."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.waiting import PATIENCE
from log import world
from log.world import N_FEATURES, contexts, learned, make_agent, make_log

import lim2
from lim2.log import ConflictingRewardError, LogError, TakenIdError, UnknownDecisionError, group_commit
from lim2.log.group_commit import GroupCommit, Request

X = np.ones(N_FEATURES)


def held(log: lim2.DecisionLog, calls: list[Callable[[], Any]]) -> list[Any]:
    """Make calls by threads of their own while a transaction is open, so that they wait for it together."""
    outcomes: list[Any] = [None] * len(calls)

    def call(place: int) -> None:
        try:
            outcomes[place] = calls[place]()
        except Exception as error:  # noqa: BLE001 (returned)
            outcomes[place] = error

    threads = [threading.Thread(target=call, args=(place,)) for place in range(len(calls))]
    waiting = threading.Semaphore(0)

    class Counted:
        """The queue of those who wait, which says when one has come."""

        def __init__(self, queue: Any) -> None:
            self.queue = queue

        def __getattr__(self, name: str) -> Any:
            return getattr(self.queue, name)

        def put(self, request: Any) -> None:
            self.queue.put(request)
            waiting.release()

    def wait_for_them(_: Any) -> None:
        for thread in threads:
            thread.start()
            waiting.acquire()

    queues: list[Any] = []

    def count_them(_: Any) -> None:  # within a transaction: nobody waits for the next one meanwhile
        for own in groups(log):
            queues.append(own._queue)
            own._queue = Counted(own._queue)  # type: ignore[assignment]
        wait_for_them(_)

    log.store.write(count_them)
    for thread in threads:
        thread.join()
    for own, queue in zip(groups(log), queues, strict=True):
        own._queue = queue
    return outcomes


def groups(log: lim2.DecisionLog) -> list[group_commit.GroupCommit]:
    """Return what writes for several at once."""
    return [part for part in log.store._current() if isinstance(part, group_commit.GroupCommit)]  # type: ignore[attr-defined]


def commits(log: lim2.DecisionLog) -> list[Any]:
    """Return the transactions that write and are begun from now on, as they come."""
    begun: list[Any] = []
    store: Any = log.store
    if world.used == ["postgres"]:
        transact = store._transact

        def counted(begin: str, *given: Any) -> None:
            begun.extend([] if "READ ONLY" in begin else [begin])
            transact(begin, *given)

        store._transact = counted
    else:
        connection = store._current().writing.tables.connection
        connection.set_trace_callback(lambda query: begun.append(query) if query.startswith("BEGIN") else None)
    return begun


def test_threads_that_wait_share_one_transaction(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        ids = [log.decide(agent, x).id for x in contexts(8)]
        begun = commits(log)
        outcomes = held(log, [partial(log.reward, id, 1.0) for id in ids])
        assert outcomes == ["recorded"] * 8
        assert len(begun) == 2  # the one that was waited for, and one for all
        assert log.apply(agent) == 8


def test_what_fails_in_a_group_fails_alone(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        ids = [log.decide(agent, x).id for x in contexts(3)]
        log.reward(ids[0], 5.0)
        outcomes = held(
            log,
            [
                lambda: log.reward(ids[1], 1.0),
                lambda: log.reward(ids[0], 6.0),
                lambda: log.reward_many([(ids[2], 1.0), ("nobody", 1.0)]),
                lambda: log.record(agent.decide(X), X, id=ids[2]),
                lambda: log.record(agent.decide(X), X, id="mine").id,
            ],
        )
        assert outcomes[0] == "recorded"
        kinds = (ConflictingRewardError, UnknownDecisionError, TakenIdError)
        assert tuple(map(type, outcomes[1:4])) == kinds
        assert outcomes[4] == log.get("mine").id == "mine"
        assert [log.get(id).reward for id in ids] == [5.0, 1.0, None]


def test_coroutines_decide_and_reward_without_blocking_the_loop(tmp_path: Path) -> None:
    agent, fresh = make_agent(), make_agent()
    ticks: list[int] = []

    async def one(log: lim2.DecisionLog, context: Any) -> tuple[Any, str]:
        decision = await log.adecide(agent, context, key="person", metadata={"version": 2})
        return decision, await log.areward(decision.id, 1.0)

    async def main(log: lim2.DecisionLog) -> list[tuple[Any, str]]:
        waiting = asyncio.ensure_future(log.store.awrite(lambda tables: released.acquire()))
        while not ticks or ticks[-1] < 3:  # the loop goes on while a transaction is open
            await asyncio.sleep(0)
            ticks.append(len(ticks))
        released.release()
        assert await waiting
        return list(await asyncio.gather(*(one(log, context) for context in contexts(20))))

    released = threading.Semaphore(0)
    with make_log(tmp_path) as log:
        begun = commits(log)
        outcomes = asyncio.run(main(log))
        assert len(begun) < 2 * 20
        assert [outcome for _, outcome in outcomes] == ["recorded"] * 20
        assert all(log.get(decision.id).metadata == {"version": 2} for decision, _ in outcomes)
        assert log.apply(agent) == log.replay(fresh) == 20
    assert learned(fresh) == learned(agent)


def test_every_method_that_writes_has_a_twin_for_coroutines(tmp_path: Path) -> None:
    agent, bandit = make_agent(), lim2.Bandit(seed=0)
    items = {"a": {"price": 1}, "b": {"price": 2}}

    async def main(log: lim2.DecisionLog) -> None:
        made = [agent.decide(X), agent.decide(X)]
        assert (await log.arecord(made[0], X, id="one")).id == "one"
        assert [entry.id for entry in await log.arecord_many(made, [X, X], ids=["two", "three"])] == ["two", "three"]
        assert len(await log.adecide_many(agent, [X, X, X])) == 3
        slate = await log.arank(bandit, {"country": "AT"}, items, 2, id="slate")
        again = await log.arecord_slate(bandit.rank({"country": "AT"}, items), raw={"country": "AT"}, raw_items=items)
        assert len(slate) == len(again) == 2
        assert await log.areward("slate", {1: 0.0, 2: 1.0}) == {1: "recorded", 2: "recorded"}
        assert await log.areward_many([("one", 1.0), ("two", 0.0)]) == ["recorded", "recorded"]
        later = await log.adecide(agent, X, active=False)
        assert await log.areward(later.id, 1.0) == "recorded"
        assert log.get(later.id).status == "pending"
        assert await log.aactivate(later.id)
        assert log.get(later.id).status == "reward"
        with pytest.raises(UnknownDecisionError):
            await log.areward("nobody", 1.0)

    with make_log(tmp_path) as log:
        asyncio.run(main(log))
        assert log.state.rewards == 5


def test_a_cancelled_coroutine_disturbs_nobody(tmp_path: Path) -> None:
    agent = make_agent()
    released = threading.Semaphore(0)

    async def main(log: lim2.DecisionLog) -> None:
        first = asyncio.ensure_future(log.store.awrite(lambda tables: released.acquire()))
        await asyncio.sleep(0)
        given_up = asyncio.ensure_future(log.adecide(agent, X, id="given up"))
        other = asyncio.ensure_future(log.adecide(agent, X, id="other"))
        await asyncio.sleep(0)
        given_up.cancel()
        released.release()
        await first
        assert (await other).id == "other"
        with pytest.raises(asyncio.CancelledError):
            await given_up

    with make_log(tmp_path) as log:
        asyncio.run(main(log))
        assert log.get("given up").status == "pending"  # it may be written all the same


def test_closing_does_what_waits_and_takes_no_more(tmp_path: Path) -> None:
    agent, outcomes = make_agent(), []
    log = make_log(tmp_path)
    ids = [log.decide(agent, x).id for x in contexts(5)]
    outcomes += held(log, [partial(log.reward, id, 2.0) for id in ids])
    ending = groups(log)[0]
    log.close()
    assert outcomes == ["recorded"] * 5
    with pytest.raises(LogError, match="closed"):
        log.reward(ids[0], 1.0)
    with pytest.raises(LogError, match="closed"):
        ending.wait_for(lambda tables: None)
    with make_log(tmp_path) as log:
        assert log.state.rewards == 5


def test_the_thread_ends_when_nothing_comes_and_starts_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "IDLE_SECONDS", 0.001)
    agent = make_agent()
    with make_log(tmp_path) as log:
        for _ in range(3):
            id = log.decide(agent, X).id
            assert held(log, [partial(log.reward, id, 1.0)]) == ["recorded"]
            for own in groups(log):
                thread = own._thread
                if thread is not None:
                    thread.join()
        assert log.state.rewards == 3


class InterruptError(BaseException):
    """What comes in between."""


def write(requests: list[Request], meanwhile: Callable[[], list[Request]]) -> None:
    requests.extend(meanwhile())
    for request in requests:
        request.result = request.work(None)


@pytest.mark.one_store
def test_an_interrupted_start_leaves_no_second_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    group, start, started = GroupCommit(write, RuntimeError), threading.Thread.start, list[threading.Thread]()

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        started.append(thread)
        if len(started) == 1:
            raise InterruptError

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    monkeypatch.setattr(group_commit, "IDLE_SECONDS", 60.0)  # nobody ends for lack of work
    with pytest.raises(InterruptError):
        group.wait_for(lambda _: 1)
    done = [group.wait_for(lambda _: number) for number in range(3)]  # noqa: B023
    others = [thread for thread in started if thread is not group._thread]
    for thread in others:
        thread.join(PATIENCE)  # it finds that it is one too many, and ends
    left = [thread for thread in others if thread.is_alive()]
    group.end()
    assert done == [0, 1, 2]
    assert not left
