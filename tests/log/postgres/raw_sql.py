"""SQL beside a log in PostgreSQL: for harm that only a test would do."""

from __future__ import annotations

from typing import Any

import psycopg

import lim2
from lim2.log.postgres.store import PostgresStore


def store_of(log: lim2.DecisionLog) -> PostgresStore:
    assert isinstance(log.store, PostgresStore)
    return log.store


def sql(log: lim2.DecisionLog, query: str, *values: Any) -> list[Any]:
    """Execute a statement in a session of its own."""
    with psycopg.connect(store_of(log).address.conninfo, autocommit=True) as connection:
        cursor = connection.execute(query, values)
        return cursor.fetchall() if cursor.description else []


def end_sessions(log: lim2.DecisionLog, whose: str = "true") -> int:
    """End the sessions of a database but one's own, as an administrator would, and wait; return how many."""
    rows = sql(
        log,
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = current_database() "
        f"AND pid <> pg_backend_pid() AND {whose}",
    )
    return len(rows)


def is_leading(log: lim2.DecisionLog) -> str:
    """Return which sessions have the right to learn from a log."""
    return f"pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = {store_of(log).number})"
