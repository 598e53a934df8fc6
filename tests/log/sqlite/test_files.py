"""What can happen to the file of a log: deleted, replaced, full, damaged, read-only, locked."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.clock import Clock
from log.sqlite.raw_sql import reading, sql, writing
from log.world import N_FEATURES, learned, live, make_agent, make_log

import lim2
from lim2.log import LogError, LogFileError

X = np.ones(N_FEATURES)


def delete(path: Path) -> None:
    for name in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        name.unlink(missing_ok=True)


def rename(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def replace(path: Path) -> None:
    delete(path)
    make_log(path.parent).close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps open files")
@pytest.mark.parametrize("harm", [delete, rename, replace])
def test_a_file_that_is_gone_is_missed_by_the_next_call(tmp_path: Path, harm: Any) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        id = log.decide(agent, X).id
        harm(tmp_path / "decisions.db")
        for call in (lambda: log.reward(id, 1.0), lambda: log.decide(agent, X), lambda: log.apply(agent)):
            with pytest.raises(LogError, match="was deleted, renamed or replaced"):
                call()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps open files")
def test_nothing_is_acknowledged_into_a_file_that_goes_meanwhile(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        id = log.decide(agent, X).id
        with pytest.raises(LogError, match="was deleted, renamed or replaced"):
            log.store.write(lambda tables: (tmp_path / "decisions.db").unlink())
        assert id


def test_a_full_disk_is_named_and_loses_nothing(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        id = log.decide(agent, X).id
        connection = writing(log)
        connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0]}")
        with pytest.raises(LogFileError, match=r"decisions\.db.* full.*Make room"):
            for _ in range(1000):
                log.decide(agent, X)
        connection.execute("PRAGMA max_page_count = 1000000")
        assert log.reward(id, 1.0) == "recorded"


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "decisions.db"
    with make_log(tmp_path) as log:
        live(log, make_agent(), 100)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    with pytest.raises(LogFileError, match=r"decisions\.db.*backup"), make_log(tmp_path) as log:
        log.table()


def test_a_locked_file_is_named(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        writing(log).execute("PRAGMA busy_timeout = 0")
        other = sqlite3.connect(tmp_path / "decisions.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LogFileError, match=r"decisions\.db.*another process"):
            log.decide(agent, X)
        other.close()
        assert log.decide(agent, X)


def test_a_log_that_is_opened_to_read_is_not_changed(tmp_path: Path) -> None:
    agent, clock = make_agent(), Clock(0.0)
    with make_log(tmp_path, expire_after=10, clock=clock) as log:
        live(log, agent, 20)
        id = log.decide(agent, X).id
    before = (tmp_path / "decisions.db").read_bytes()
    with make_log(tmp_path, read_only=True, clock=Clock(1000.0), keep=0) as log:
        assert len(log.table()) == log.replay(make_agent()) == 20
        assert log.apply(make_agent()) == 20
        with pytest.raises(LogFileError, match=r"decisions\.db.*read-only"):
            log.reward(id, 1.0)
    assert (tmp_path / "decisions.db").read_bytes() == before
    with pytest.raises(LogFileError, match="cannot be opened"):
        lim2.DecisionLog(tmp_path / "none.db", read_only=True)
    assert not (tmp_path / "none.db").exists()


def as_nobody(work: Any) -> str:
    """Return what some work returns in a process to which the permissions of files apply."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setuid(65534)
            answer = str(work())
        except BaseException as error:  # noqa: BLE001 (handed on)
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as answers:
        return answers.read()


@pytest.mark.skipif(sys.platform == "win32", reason="fork")
def test_a_log_on_a_read_only_disk_can_be_evaluated() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        with make_log(folder) as log:
            live(log, make_agent(epsilon=0.6), 50)
        (folder / "decisions.db").chmod(0o444)
        folder.chmod(0o555)
        opened: dict[str, Any] = {"clock": Clock(), "synchronous": "normal"}
        path = folder / "decisions.db"
        assert "read_only=True" in as_nobody(lambda: lim2.DecisionLog(path, **opened))
        assert as_nobody(lambda: len(lim2.DecisionLog(path, read_only=True, **opened).table())) == "50"
        (folder / "decisions.db-wal").write_bytes(b"x" * 100)
        assert "-wal" in as_nobody(lambda: lim2.DecisionLog(path, read_only=True, **opened))
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_settings_live_in_the_file(tmp_path: Path) -> None:
    agent, clock = make_agent(), Clock(0.0)
    with make_log(tmp_path, clock=clock) as early, make_log(tmp_path, expire_after=10, clock=clock) as log:
        assert early.expire_after == log.expire_after == 10.0
        with pytest.raises(LogError, match=r"expire_after=20.*expire_after=10.*configure"):
            make_log(tmp_path, expire_after=20)
        with pytest.raises(LogError, match=r"default_reward=0\.0"):
            make_log(tmp_path, expire_after=10, default_reward=0.0)
        early.configure(expire_after=5, default_reward=-1.0)
        early.decide(agent, X)
        clock.now = 6.0
        assert (log.apply(agent), agent.rounds) == (1, 1)
        log.configure()
        assert early.expire_after is None


def test_the_state_does_not_read_every_row(tmp_path: Path) -> None:
    agent, clock, steps = make_agent(), Clock(0.0), [0]

    def step() -> int:
        steps[0] += 1
        return 0

    with make_log(tmp_path, expire_after=10, clock=clock, keep=40) as log:
        live(log, agent, 100)
        ids = [log.decide(agent, X).id for _ in range(3)]
        log.discard(ids[0])
        clock.now = 11.0
        assert log.reward(log.decide(agent, X).id, 1.0) == "recorded"
        state = log.state
        rows = dict(sql(log, "SELECT kind, count(*) FROM events GROUP BY kind"))
        waiting = sql(log, "SELECT count(*) FROM decisions WHERE settled IS NULL")[0][0]
        assert (state.rewards, state.dropped, state.discarded) == (rows["reward"], rows["dropped"], rows["discarded"])
        assert state.pending == waiting == 0
        log.decide(agent, X)
        reading(log).set_progress_handler(step, 100)
        assert (log.state.pending, log.state.oldest_pending) == (1, 0.0)
        few = steps[0]
        reading(log).set_progress_handler(None, 0)
        numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)"
        more = f"{numbers} SELECT 0, 'reward' FROM n"
        sql(log, f"INSERT INTO events (time, kind) {more}")
        reading(log).set_progress_handler(step, 100)
        assert log.state.rewards == rows["reward"] + 5000
        assert steps[0] <= 2 * few + 2


def test_what_a_second_interrupt_left_open_is_rolled_back_by_the_next_call(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path) as log:
        id = log.decide(agent, X).id
        writing(log).execute("BEGIN IMMEDIATE")
        writing(log).execute("DELETE FROM decisions")
        assert log.reward(id, 1.0) == "recorded"
        assert log.get(id).reward == 1.0
        assert not writing(log).in_transaction


def test_the_file_stays_small(tmp_path: Path) -> None:
    agent = make_agent()
    with make_log(tmp_path, keep=50) as log:
        live(log, agent, 200)
        log.store.checkpoint()
        size = log.state.nbytes
        for seed in range(3):
            live(log, agent, 200, seed=seed)
            log.store.checkpoint()
        assert log.state.nbytes <= 1.1 * size


def test_what_is_not_a_log_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.db"
    text.write_text("not a database, " * 100)
    with pytest.raises(LogError, match="cannot be opened"):
        lim2.DecisionLog(text)
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE t (x)")
    other.commit()
    other.close()
    with pytest.raises(LogError, match="not a decision log"):
        lim2.DecisionLog(tmp_path / "other.db")
    make_log(tmp_path).close()
    newer = sqlite3.connect(tmp_path / "decisions.db")
    newer.execute("PRAGMA user_version = 9")
    newer.close()
    with pytest.raises(LogError, match="has format 9"):
        make_log(tmp_path)
    with pytest.raises(LogError, match="cannot be opened"):
        lim2.DecisionLog(tmp_path / "no such folder" / "log.db")


def test_a_backup_is_a_log(tmp_path: Path) -> None:
    agent, fresh = make_agent(), make_agent()
    with make_log(tmp_path) as log:
        live(log, agent, 30)
        log.backup(tmp_path / "copy.db")
        with pytest.raises(LogError, match="never overwrites"):
            log.backup(tmp_path / "copy.db")
        live(log, make_agent(seed=3), 5)
    with lim2.DecisionLog(tmp_path / "copy.db") as copy:
        assert copy.replay(fresh) == 30
        assert learned(fresh) == learned(agent)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "decisions.db"]
