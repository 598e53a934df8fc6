"""Events are kept by month: partitions are made ahead, and dropped when no log needs them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psycopg
import pytest
from helpers.clock import Clock
from log.postgres.raw_sql import sql, store_of
from log.world import N_FEATURES, learned, make_agent, make_log

import lim2
from lim2.log.copying import copy
from lim2.log.postgres import partitions
from lim2.log.postgres.partitions import Partition, drop_unused, make_ahead
from lim2.log.postgres.store import PostgresStore

X = np.ones(N_FEATURES)
FIRST = Partition(2033, 6)
FIVE = [FIRST.plus(number) for number in range(5)]
START, DAY = FIRST.start, 86400.0


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[Clock]:
    """Give a clock in the year 2033, and the partitions of five months; none is left."""
    with make_log(tmp_path / "first") as log, session(log) as connection:
        for month in FIVE[:-1]:
            make_ahead(connection, month.start)
        yield Clock(START)
        sql(log, "DELETE FROM lim2.events WHERE time > %s", START - 1)
        drop_unused(connection, START + 9999 * DAY)
        assert months(log) == []


def session(log: lim2.DecisionLog) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(store_of(log).address.conninfo, autocommit=True)


def months(log: lim2.DecisionLog) -> list[int]:
    """Return which of the months there are, from the first one on."""
    with session(log) as connection:
        found = (12 * (one.year - FIRST.year) + one.month - FIRST.month for one in partitions.partitions(connection))
        return [number for number in found if number >= 0]


def rows(log: lim2.DecisionLog, table: str = "events") -> int:
    return int(sql(log, f"SELECT count(*) FROM lim2.{table} WHERE log = %s", store_of(log).number)[0][0])


def live_for(log: lim2.DecisionLog, agent: lim2.Agent, clock: Clock, days: range) -> None:
    for day in days:
        clock.now = START + DAY * day
        log.reward(log.decide(agent, X, id=f"day {day}").id, 1.0)
        log.apply(agent)


def care(log: lim2.DecisionLog, now: float) -> None:
    with session(log) as connection:
        drop_unused(connection, now)
        while partitions.delete_pruned(connection, now):
            pass


def test_events_are_in_the_partition_of_their_month(tmp_path: Path, clock: Clock) -> None:
    with make_log(tmp_path, clock=clock, keep=None) as log:
        live_for(log, make_agent(), clock, range(0, 140, 20))
        assert months(log) == [0, 1, 2, 3, 4]
        assert [rows(log, month.table) for month in FIVE] == [2, 2, 1, 2, 0]
        assert rows(log, "events_default") == 0
        clock.now = 1000.0
        log.reward(log.decide(make_agent(), X).id, 1.0)  # a clock that is wrong
        assert rows(log, "events_default") == 1
        fresh, again = make_agent(), make_agent()
        assert log.replay(fresh) == 8
        assert [log.reward(f"day {day}", 1.0) for day in (0, 120)] == ["duplicate", "duplicate"]
        log.replay(again)
        assert learned(fresh) == learned(again)


def test_a_copy_has_its_events_in_the_partitions_of_their_months(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = SimpleNamespace(time=lambda: START + 125 * DAY, monotonic=time.monotonic)
    monkeypatch.setattr("lim2.log.postgres.store.time", now)
    with lim2.DecisionLog(tmp_path / "log.db", clock=clock, keep=None) as log:
        live_for(log, make_agent(), clock, range(40, 140, 20))
        with make_log(tmp_path / "copy", clock=clock) as copied:
            for month in FIVE:
                sql(copied, f"DROP TABLE lim2.{month.table}")
            copy(log.store, copied.store)
            assert months(copied)[:3] == [1, 2, 3]
            assert [rows(copied, month.table) for month in FIVE[1:4]] == [2, 1, 2]
            assert rows(copied, "events_default") == 0


def test_partitions_go_when_all_logs_have_pruned_them(tmp_path: Path, clock: Clock) -> None:
    agent, other = make_agent(), make_agent()
    keep = timedelta(days=30)
    with make_log(tmp_path, clock=clock, keep=keep) as log, make_log(tmp_path / "b", clock=clock, keep=keep) as beside:
        live_for(log, agent, clock, range(0, 96, 4))  # to the 2nd of September
        live_for(beside, other, clock, range(0, 64, 4))  # to the 30th of July
        clock.now = START + 92 * DAY
        assert (log.state.pruned, log.state.rewards, rows(log)) == (16, 8, 24)  # no row is deleted singly
        care(log, clock.now)
        assert beside.state.pruned == 8  # it has not looked for a month
        assert months(log) == [1, 2, 3, 4]
        beside.apply(other)
        assert beside.state.pruned == 16
        care(log, clock.now)
        assert months(log) == [2, 3, 4]
        assert (log.state.rewards, len(log.table())) == (8, 8)
        with pytest.raises(lim2.log.UnknownDecisionError):
            log.get("day 12")
        assert log.decide(agent, X, id="day 12").status == "pending"  # it is free again


def test_rows_that_are_in_the_way_of_another_log_are_deleted(tmp_path: Path, clock: Clock) -> None:
    agent, other = make_agent(), make_agent()
    with (
        make_log(tmp_path, clock=clock, keep=timedelta(days=1)) as log,
        make_log(tmp_path / "b", clock=clock, keep=None) as forever,
    ):
        live_for(forever, other, clock, range(0, 120, 10))
        live_for(log, agent, clock, range(0, 120, 10))  # to the 19th of September
        assert log.state.pruned == 11
        care(log, clock.now)
        assert months(log) == [0, 1, 2, 3, 4]
        assert rows(forever) == 12
        assert [rows(log, month.table) for month in FIVE] == [0, 0, 3, 2, 0]
        assert (log.state.rewards, len(log.table())) == (1, 1)


def test_what_is_in_the_default_partition_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "ROWS_PER_DELETE", 7)
    agent = make_agent()
    with make_log(tmp_path, keep=5) as log:
        for _ in range(30):
            log.reward(log.decide(agent, X).id, 1.0)
        log.apply(agent)
        assert (rows(log), log.state.rewards) == (30, 5)
        care(log, 2e9)
        assert (rows(log), log.state.rewards, len(log.table())) == (5, 5, 5)


def test_a_partition_that_comes_too_late_is_left_out(tmp_path: Path, clock: Clock) -> None:
    agent, late = make_agent(), FIRST.plus(10).start
    with make_log(tmp_path, clock=clock, keep=None) as log, session(log) as connection:
        clock.now = late
        log.reward(log.decide(agent, X).id, 1.0)
        assert rows(log, "events_default") == 1
        make_ahead(connection, late)
        assert months(log) == [0, 1, 2, 3, 4, 11]
        log.reward(log.decide(agent, X).id, 1.0)
        assert rows(log, "events_default") == 2
        assert log.apply(agent) == 2


def test_who_reads_keeps_the_partitions_of_that_moment(tmp_path: Path, clock: Clock) -> None:
    """A partition that is dropped in the middle would take events out of the past, and a learner would skip them."""
    agent = make_agent()
    with make_log(tmp_path, clock=clock, keep=None) as log, session(log) as connection:
        live_for(log, agent, clock, range(0, 140, 20))

        def work(tables: Any) -> list[int]:
            assert tables.get("pruned") == 0
            sql(log, "UPDATE lim2.logs SET pruned = 7 WHERE log = %s", store_of(log).number)
            drop_unused(connection, START + 9999 * DAY)
            return [event.position for event in tables.events(0, 10, 10)]

        assert log.store.look(work) == [1, 2, 3, 4, 5, 6, 7]


def test_a_partition_in_use_is_left_for_later(tmp_path: Path, clock: Clock) -> None:
    """Who takes care waits for a second, and tries again another time."""
    with make_log(tmp_path, clock=clock) as log, session(log) as reader, session(log) as connection:
        with reader.transaction():
            reader.execute("SELECT * FROM lim2.events LIMIT 1")
            drop_unused(connection, START + 9999 * DAY)
            assert months(log)
            make_ahead(connection, FIRST.plus(20).start)
        drop_unused(connection, START + 9999 * DAY)
        assert months(log) == []


def test_partitions_are_maintained_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for all logs of a process, also if none of them is open for an hour."""
    agent, maintained = make_agent(), list[str]()
    inner = PostgresStore.maintain

    def maintain(store: PostgresStore) -> None:
        maintained.append(store.name)
        inner(store)

    monkeypatch.setattr(PostgresStore, "maintain", maintain)
    with make_log(tmp_path) as log:
        connections = store_of(log)._current().connections
        connections.maintain_at = time.monotonic()
        with make_log(tmp_path / "short") as short:
            for one in (short, log, short, log):
                one.reward(one.decide(agent, X).id, 1.0)
                one.reward(one.decide(agent, X).id, 1.0)  # the thread has done what comes after the first
        assert maintained == [short.store.name]
        assert connections.maintain_at > time.monotonic() + 3000
