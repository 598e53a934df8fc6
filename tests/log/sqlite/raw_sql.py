"""SQL and connections of a log in an SQLite file, beside its interface: for harm that only a test would do."""

import sqlite3
from typing import Any

import lim2
from lim2.log.sqlite.store import SQLiteStore
from lim2.log.sqlite.tables import SQLiteTables


def store_of(log: lim2.DecisionLog) -> SQLiteStore:
    assert isinstance(log.store, SQLiteStore)
    return log.store


def writing(log: lim2.DecisionLog) -> sqlite3.Connection:
    """Return the connection that writes."""
    return store_of(log)._current().writing.tables.connection


def reading(log: lim2.DecisionLog) -> sqlite3.Connection:
    """Return the connection that reads."""
    return store_of(log)._current().reading.tables.connection


def sql(log: lim2.DecisionLog, query: str, *values: Any) -> list[Any]:
    """Execute a query within a transaction that writes."""

    def work(tables: Any) -> list[Any]:
        assert isinstance(tables, SQLiteTables)
        return tables.connection.execute(query, values).fetchall()

    return log.store.write(work)
