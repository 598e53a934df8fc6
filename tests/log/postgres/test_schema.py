"""How a database comes to have its tables, and which it refuses."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from helpers import postgres
from log.world import make_agent

import lim2
from lim2.log import LogError, LogFileError
from lim2.log.postgres import migrating


@pytest.fixture
def url() -> Iterator[str]:
    """Give a database of its own, without a table in it."""
    server = postgres.database()
    name = "lim2_empty_" + server.rpartition("lim2_test_")[2].partition("?")[0]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        connection.execute(f'CREATE DATABASE "{name}"')
        yield postgres.as_url(psycopg.conninfo.make_conninfo(server, dbname=name))
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def test_many_who_open_an_empty_database_at_once_make_one_schema(url: str) -> None:
    logs: list[lim2.DecisionLog] = []
    threads = [threading.Thread(target=lambda: logs.append(lim2.DecisionLog(url))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({log.id for log in logs}) == 1
    assert len(logs) == 6
    for log in logs:
        log.close()
    with psycopg.connect(url) as connection:
        numbers = connection.execute("SELECT number FROM lim2.migrations ORDER BY number").fetchall()
    assert numbers == [(number,) for number, _, _ in migrating.migrations()]


def test_migrations_are_numbered_without_a_gap() -> None:
    steps = migrating.migrations()
    assert [number for number, _, _ in steps] == list(range(1, len(steps) + 1))


def test_a_newer_schema_is_refused(url: str) -> None:
    lim2.DecisionLog(url).close()
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO lim2.migrations (number, name) VALUES (99, 'from the future')")
    for read_only in (False, True):
        with pytest.raises(LogFileError, match=r"schema 99; this version of lim2 knows up to \d+\. Use the lim2"):
            lim2.DecisionLog(url, read_only=read_only)


def test_a_step_is_applied_whole_or_not_at_all(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = migrating.migrations()
    lim2.DecisionLog(url).close()
    bad = (len(steps) + 1, "9999_bad", "CREATE TABLE lim2.extra (x int); ALTER TABLE lim2.nowhere ADD COLUMN x int")
    good = (len(steps) + 1, "9999_good", "CREATE TABLE lim2.extra (x int)")
    with monkeypatch.context() as patch:
        patch.setattr(migrating, "migrations", lambda: [*steps, bad])
        with pytest.raises(LogFileError, match="nowhere"):
            lim2.DecisionLog(url)
        with pytest.raises(LogFileError, match=f"schema {len(steps)} of {len(steps) + 1}"):
            lim2.DecisionLog(url, read_only=True)
    lim2.DecisionLog(url).close()  # nothing has changed
    monkeypatch.setattr(migrating, "migrations", lambda: [*steps, good])
    lim2.DecisionLog(url).close()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM lim2.extra").fetchone() == (0,)


def test_a_log_that_is_opened_to_read_is_not_made_and_not_changed(url: str) -> None:
    with pytest.raises(LogFileError, match="schema 0 of"):
        lim2.DecisionLog(url, read_only=True)
    agent = make_agent()
    with lim2.DecisionLog(url) as log:
        log.reward(log.decide(agent, [0.5] * 4, id="x").id, 1.0)
    with pytest.raises(LogFileError, match="no log of this name"):
        lim2.DecisionLog(f"{url}#other", read_only=True)
    with lim2.DecisionLog(url, read_only=True, keep=0) as log:
        assert log.apply(make_agent()) == len(log.table()) == 1
        with pytest.raises(LogFileError, match="open for reading only"):
            log.reward("x", 1.0)


def test_a_log_that_was_deleted_says_so(url: str) -> None:
    with lim2.DecisionLog(url) as log:
        with psycopg.connect(url) as connection:
            connection.execute("DELETE FROM lim2.logs")
        with pytest.raises(LogError, match="deleted from the database"):
            log.apply(make_agent())


@pytest.mark.skipif(sys.platform == "win32", reason="the path of the interpreter")
def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "psycopg.py").write_text("raise ModuleNotFoundError(\"No module named 'psycopg'\", name='psycopg')")
    code = "import sys; sys.path.insert(0, sys.argv[1]); import lim2; lim2.DecisionLog('postgresql://host/db')"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert "a log in PostgreSQL needs psycopg, which is not installed: pip install 'lim2[postgres]'" in done.stderr
