"""Sessions that end, a right to learn that is lost, and word of what others have written."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psycopg
import pytest
from helpers.waiting import PATIENCE, until
from log.postgres.raw_sql import end_sessions, is_leading, sql, store_of
from log.test_group_commit import held
from log.world import N_FEATURES, address, make_agent, make_log

import lim2
from lim2.log import LogFileError, LostLeaseError, StoreUnavailableError
from lim2.log.decision_input import checked_input
from lim2.log.decisions import Insertion
from lim2.log.entries import to_row
from lim2.log.postgres import connections, listening
from lim2.log.postgres.store import TRANSACTION_TIMEOUT_VERSION
from lim2.log.store import Work

X = np.ones(N_FEATURES)
WAIT = "transactionid"  # what a session waits for if a row of its key was inserted by another one


def test_a_lease_knows_that_its_session_has_ended(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log, make_log(tmp_path) as other:
        lease = log.lead()
        assert lease is not None
        assert end_sessions(log, is_leading(log)) == 1
        while lease.held:  # word of it is on its way
            pass
        with pytest.raises(LostLeaseError):
            log.publish(agent, lease=lease)
        taken = other.lead()
        assert taken is not None
        assert taken.epoch == lease.epoch + 1
        assert not lease.held
        lease.release()
        taken.release()


PARENT = """
import os, signal, sys, time, lim2
log = lim2.DecisionLog(sys.argv[1])
lease = log.lead()
child = os.fork()
if child == 0:
    assert not lease.held
    lease.release()
    log.configure()  # by connections of its own
    print(os.getpid(), flush=True)
    time.sleep(600)
assert lease.held
sys.stdin.read()
"""


def test_a_child_neither_has_nor_keeps_the_lease_of_its_parent(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        command = [sys.executable, "-c", PARENT, log.store.name]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            child = int(process.stdout.readline())
            try:
                assert log.lead() is None
                process.kill()
                until(log.lead, "the lead").release()  # the child lives on
            finally:
                os.kill(child, 9)


def test_ended_sessions_are_replaced_and_nobody_notices(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        id = log.decide(agent, X).id
        for _ in range(3):
            assert end_sessions(log) >= 1
            assert log.get(id).status == "pending"
            assert log.decide(agent, X, id=None).id
        assert log.reward(id, 1.0) == "recorded"
        assert log.state.pending == 3


def test_work_that_is_lost_before_the_commit_is_done_once_more(tmp_path: Path) -> None:
    done: list[int] = []

    def work(tables: Any) -> None:
        tables.put("late", tables.get("late") + 1)
        tables.flush()
        if not done:
            done.append(tables.connection.info.backend_pid)
            sql(log, "SELECT pg_terminate_backend(%s)", *done)
        tables.oldest()

    with make_log(tmp_path) as log:
        log.store.write(work)
        assert log.state.late == 1


class Cut:
    """A connection that is lost when it is to commit: before that has reached the server, or after."""

    def __init__(self, connection: Any, after: bool) -> None:
        self._connection, self._after = connection, after

    def execute(self, query: str, *values: Any, **options: Any) -> Any:
        if query != "COMMIT":
            return self._connection.execute(query, *values, **options)
        if self._after:
            self._connection.execute(query)
            self._connection._pipeline.sync()
        self._connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@pytest.mark.parametrize("after", [False, True])
def test_a_lost_acknowledgement_is_said_and_nothing_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        pool = store_of(log)._current().connections
        take, tries = pool.take, []

        def cut() -> Any:
            tries.append(1)
            return Cut(take(), after)

        with monkeypatch.context() as patch:
            patch.setattr(pool, "take", cut)
            with pytest.raises(StoreUnavailableError, match="unknown whether this call was written"):
                log.record(agent.decide(X), X, id="mine")
            assert len(tries) == 1
        # The same call again tells whether it was written.
        if after:
            with pytest.raises(lim2.log.TakenIdError):
                log.record(agent.decide(X), X, id="mine")
        else:
            log.record(agent.decide(X), X, id="mine")
        assert log.state.pending == 1


def test_a_database_that_is_away_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match=r"nowhere/db#default cannot be reached.*try again"):
        lim2.DecisionLog(f"postgresql:///db?host={tmp_path}/nowhere/db")


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    for url in (
        f"postgresql://ann:secret@/db?host={tmp_path}",
        f"postgresql://ann@/db?password=secret&host={tmp_path}",
    ):
        with pytest.raises(StoreUnavailableError) as caught:
            lim2.DecisionLog(url)
        assert "secret" not in str(caught.value)
        assert "ann@/db?host=" in str(caught.value)


def test_logs_of_one_database_share_connections(tmp_path: Path) -> None:
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    agent = make_agent()
    logs = [make_log(tmp_path / str(number)) for number in range(8)]
    for log in logs:
        log.reward(log.decide(agent, X).id, 1.0)
    ((sessions,),) = sql(logs[0], count)
    assert sessions <= 3  # one that inserts, one that writes, one that reads
    for log in logs:
        log.close()
    assert not connections._opened


def test_word_of_events_and_models_reaches_those_who_listen(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log, make_log(tmp_path) as other, make_log(tmp_path / "else") as stranger:
        woken, strangers = threading.Semaphore(0), threading.Semaphore(0)
        stop, stop_too = other.store.listen(woken.release), stranger.store.listen(strangers.release)
        assert woken.acquire(timeout=PATIENCE)  # once it listens, in case something was missed
        assert strangers.acquire(timeout=PATIENCE)
        id = log.decide(agent, X).id
        log.reward(id, 1.0)
        assert woken.acquire(timeout=PATIENCE)
        log.publish(agent)
        assert woken.acquire(timeout=PATIENCE)
        sql(log, "NOTIFY lim2, 'not the number of a log'")  # whoever has sent it
        log.publish(agent)
        assert woken.acquire(timeout=PATIENCE)
        # Who has lost the session hears of it, and goes on.
        end_sessions(log, "query = 'LISTEN lim2'")
        assert woken.acquire(timeout=PATIENCE)
        assert strangers.acquire(timeout=PATIENCE)
        assert not strangers.acquire(blocking=False)
        stop()
        stop_too()
        stop()
    assert listening._listeners.get(store_of(log).address)._thread is None


class Pooled:
    """A connection through a pooler: the server's process is not the one that the client was told of."""

    info = SimpleNamespace(backend_pid=0)

    def __init__(self, connection: Any) -> None:
        self.execute, self.close = connection.execute, lambda: None


def test_a_pooler_that_shares_sessions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with make_log(tmp_path) as log:
        own = store_of(log).address
        with psycopg.connect(own.conninfo, autocommit=True) as one, psycopg.connect(own.conninfo) as two:
            connections.check_sessions(one, own)
            pooled: Any = Pooled(one)
            for session, refused in ((two, False), (one, True)):
                monkeypatch.setattr(connections, "connect", lambda _, session=session: Pooled(session))
                with pytest.raises(LogFileError, match="session mode") if refused else nullcontext():
                    connections.check_sessions(pooled, own)


def test_decisions_are_not_held_up_by_who_settles(tmp_path: Path) -> None:
    """While another process settles decisions, and stands still, decisions are made."""
    agent = make_agent()
    with make_log(tmp_path) as log, psycopg.connect(store_of(log).address.conninfo) as other:
        other.execute("SELECT * FROM lim2.logs WHERE log = %s FOR NO KEY UPDATE", (store_of(log).number,))
        id = log.decide(agent, X, id="mine").id
        assert log.get(id).status == "pending"
        rewarded: list[str] = []
        thread = threading.Thread(target=lambda: rewarded.append(log.reward(id, 1.0)))
        thread.start()
        log.decide(agent, X)
        assert not rewarded
        other.rollback()
        thread.join()
        assert rewarded == ["recorded"]


def test_who_stands_still_in_a_transaction_loses_its_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process that was frozen while it has the lock of a log. Nobody waits for it for longer than the limit."""
    with make_log(tmp_path) as log, make_log(tmp_path) as other:
        with psycopg.connect(store_of(log).address.conninfo) as asked:
            if asked.info.server_version < TRANSACTION_TIMEOUT_VERSION:
                pytest.skip("the server is older than PostgreSQL 17")
        id, still, goes_on = log.decide(make_agent(), X).id, threading.Event(), threading.Event()

        def work(tables: Any) -> None:
            tables.put("late", tables.get("late") + 1)
            still.set()
            goes_on.wait()
            tables.counts()  # notices the loss before the commit, whose outcome would be unknown

        monkeypatch.setattr(connections, "TIMEOUT_SECONDS", 1)  # a second
        thread = threading.Thread(target=lambda: other.store.write(work))
        thread.start()
        still.wait()
        monkeypatch.undo()
        assert log.reward(id, 1.0) == "recorded"
        goes_on.set()
        thread.join()
        assert log.state.late == 1  # it was done once more, and once in all


@pytest.mark.parametrize("kinds", [("decision", "decision"), ("decision", "slate"), ("slate", "decision")])
def test_who_inserts_a_name_that_another_is_inserting_waits_for_it(tmp_path: Path, kinds: tuple[str, str]) -> None:
    agent, outcomes = make_agent(), list[str]()
    record: Any = {"decision": lambda log: log.record(agent.decide(X), X, id="x").id}
    record["slate"] = lambda log: log.record_slate([agent.decide(X)], X, id="x").id

    def insert(log: lim2.DecisionLog) -> None:
        try:
            outcomes.append(record[kinds[1]](log))
        except lim2.log.TakenIdError:
            outcomes.append("taken")

    with make_log(tmp_path) as log:
        thread = threading.Thread(target=insert, args=(log,))

        def while_it_waits(tables: Any) -> None:
            tables.flush()
            thread.start()
            blocked = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = %s"
            while not sql(log, blocked, WAIT):
                assert thread.is_alive(), outcomes

        with make_log(tmp_path) as other:
            write = store_of(other).write

            def slow(work: Any) -> Any:
                def both(tables: Any) -> None:
                    work(tables)
                    while_it_waits(tables)

                return write(Work(both, inserts=True))

            store_of(other).write = slow  # type: ignore[method-assign]
            record[kinds[0]](other)
        thread.join()
        assert outcomes == ["taken"]
        assert log.state.pending == 1


def test_an_id_is_taken_also_when_it_was_settled_in_between(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        log.record(agent.decide(X), X, id="x")
        log.reward("x", 1.0)
        with pytest.raises(lim2.log.TakenIdError, match="'x' is taken"):
            log.record(agent.decide(X), X, id="x")
        with pytest.raises(lim2.log.TakenIdError, match="'x' is taken"):
            log.record_slate([agent.decide(X)], X, id="x")
        assert log.reward("x", 1.0) == "duplicate"
        assert log.state.pending == 0


def test_what_a_database_cannot_keep_fails_alone(tmp_path: Path) -> None:
    made = make_agent().decide(X)

    def insert(id: str) -> Any:
        row = to_row(made, checked_input(X, None, None, None), id, 0.0)  # without a check of the id
        return log.store.write(Work(Insertion([id], [row], 0), inserts=True))

    with make_log(tmp_path) as log:
        outcomes = held(
            log,
            [
                lambda: insert("k" * 10_000 + os.urandom(9000).hex()),
                lambda: log.record(made, X, id="b").id,
                lambda: insert("zero\0byte"),
                lambda: log.record(made, X, id="c").id,
            ],
        )
        assert (outcomes[1], outcomes[3]) == ("b", "c")
        assert all(isinstance(outcomes[place], lim2.log.LogFileError) for place in (0, 2)), outcomes
        assert log.state.pending == 2


def test_what_is_found_when_all_is_committed_fails_alone(tmp_path: Path) -> None:
    def bad(tables: Any) -> None:
        tables.add_batch(0, 1)
        tables.add_batch(0, 2)  # one begins at each position; the answer to this is read with that to the commit

    agent = make_agent()
    with make_log(tmp_path) as log:
        id = log.decide(agent, X).id
        outcomes = held(log, [lambda: log.store.write(bad), lambda: log.reward(id, 1.0)])
        assert isinstance(outcomes[0], lim2.log.LogFileError)
        assert outcomes[1] == "recorded"
        assert log.store.look(lambda tables: tables.next_batch(0)) == (None, None)


def test_the_address_names_the_log(tmp_path: Path) -> None:
    url, _, _ = str(address(tmp_path)).partition("#")
    with lim2.DecisionLog(f"{url}#one%20log") as one, lim2.DecisionLog(url) as default:
        assert (store_of(one).address.log, store_of(default).address.log) == ("one log", "default")
        assert one.id != default.id
    with pytest.raises(ValueError, match="not a valid database address"):
        lim2.DecisionLog("postgresql://host/db?colour=red")
    with pytest.raises(ValueError, match="unknown kind of log mysql"):
        lim2.DecisionLog("mysql://host/db")
