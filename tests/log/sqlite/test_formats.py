"""Files of an earlier format are opened, migrated, and go on being used."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from log.stand_ins import RawLearner
from log.test_items import CATALOGUE, USERS
from log.world import learned, live, make_agent, make_log

from lim2.log import LogError
from lim2.log.sqlite import schema

FIRST = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE decisions (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    time REAL NOT NULL,
    context BLOB NOT NULL, dtype TEXT NOT NULL, shape TEXT NOT NULL,
    arms TEXT NOT NULL, chosen INTEGER NOT NULL, propensity REAL NOT NULL,
    means BLOB NOT NULL, stds BLOB NOT NULL, propensities BLOB NOT NULL, exploit INTEGER NOT NULL,
    position INTEGER NOT NULL,
    settled INTEGER
);
CREATE INDEX pending ON decisions (time) WHERE settled IS NULL;
CREATE TABLE events (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    time REAL NOT NULL,
    kind TEXT NOT NULL,
    decision INTEGER,
    reward REAL,
    change TEXT
);
"""
COLUMNS = "seq, id, time, context, dtype, shape, arms, chosen, propensity, means, stds, propensities, exploit, position"


def first_format(folder: Path) -> str:
    """Write a log in the first format: decisions of an agent, the rewards of some; return an id that waits."""
    (folder / "new").mkdir()
    with make_log(folder / "new") as log:
        live(log, make_agent(), 20)
        waiting = log.decide(make_agent(), np.zeros(4)).id
        log.backup(folder / "copy.db")
    file = sqlite3.connect(folder / "decisions.db")
    file.executescript(FIRST)
    file.execute("ATTACH ? AS new", (str(folder / "copy.db"),))
    file.execute("INSERT INTO meta SELECT * FROM new.meta")
    file.execute(f"INSERT INTO decisions ({COLUMNS}, settled) SELECT {COLUMNS}, settled FROM new.decisions")
    file.execute("INSERT INTO events SELECT position, time, kind, decision, reward, change FROM new.events")
    file.execute(f"PRAGMA application_id = {schema.APPLICATION}")
    file.execute("PRAGMA user_version = 1")
    file.commit()
    file.close()
    return waiting


def format_of(folder: Path) -> int:
    file = sqlite3.connect(folder / "decisions.db")
    found: int = file.execute("PRAGMA user_version").fetchone()[0]
    file.close()
    return found


def test_a_file_of_the_first_format_is_migrated_and_goes_on(tmp_path: Path) -> None:
    waiting = first_format(tmp_path)
    live_agent, agent, bandit = make_agent(), make_agent(), RawLearner(["country"])
    with make_log(tmp_path / "new") as new:
        assert new.reward(waiting, 1.0) == "recorded"
        new.replay(live_agent)
    with make_log(tmp_path) as log:
        assert log.reward(waiting, 1.0) == "recorded"
        assert log.replay(agent) == 21
        entry = log.get(waiting)
        assert (entry.context.tolist(), entry.items, entry.raw, entry.position) == ([0.0] * 4, None, None, 0)
        log.decide(bandit, USERS[0], items=CATALOGUE)
        assert len(log.rank(bandit, USERS[0], CATALOGUE, 2)) == 2
        assert len(log.table()) == 21
    assert format_of(tmp_path) == schema.FORMAT == 5
    for one in (agent, live_agent):
        del one.metadata["log_event"]  # the last reward was recorded twice, in two files
    assert learned(agent) == learned(live_agent)
    make_log(tmp_path).close()


def test_a_migration_happens_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first_format(tmp_path)
    with monkeypatch.context() as patch:
        patch.setitem(schema.MIGRATIONS, 1, schema.MIGRATIONS[1] + "; ALTER TABLE nowhere ADD COLUMN x")
        with pytest.raises(LogError, match="cannot be opened"):
            make_log(tmp_path)
    assert format_of(tmp_path) == 1
    file = sqlite3.connect(tmp_path / "decisions.db")
    assert not {"items", "raw", "slot"} & {row[1] for row in file.execute("PRAGMA table_info(decisions)")}
    file.close()
    with make_log(tmp_path) as log:
        assert log.replay(make_agent()) == 20
