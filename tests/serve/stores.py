"""Where bandits live in tests: a folder, or a database of their own on a real server."""

import contextlib
import uuid
from collections.abc import Iterator

import pytest
from helpers import postgres

# Run a test over every kind of store; the fixture `store` gives it.
over_all = pytest.mark.parametrize("store", ["folders", "postgres"], indirect=True)


@contextlib.contextmanager
def fresh_database(server: str | None = None) -> Iterator[str]:
    """Give the address of an empty database; it is dropped afterwards. The server is that of the run, or another."""
    if reason := postgres.missing():
        pytest.skip(reason)
    import psycopg

    own = postgres.database() if server is None else server
    name = f"lim2_serve_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(own, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield postgres.as_url(psycopg.conninfo.make_conninfo(own, dbname=name))
    with psycopg.connect(own, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
