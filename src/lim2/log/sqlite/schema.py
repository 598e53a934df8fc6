"""The tables of a log's file, and the migrations of files of earlier formats.

`decisions` has one row per decision, or per position of a slate (`slot`, from 1). Its context is a vector
(`context`, `dtype`, `shape`; a shape of ``null`` says that there is none), or raw JSON (`raw`), or both; so are its
candidates (`items`, `raw_items`). `settled` is the position of the event that settled it. `events` is what an agent
learns from, in this order: a reward, a default reward, a decision dropped, discarded or erased, an arm
added or removed.
An event's `token` is drawn when it is written: an agent that carries it knows its event in any copy of the file.
`rewards` has those that are collected until a decision settles, or that came too late. `batches` has the events that
were learned as one: those after a position, up to another one. `models` has published agents. `proofs` has the sums of
proofs, with the `seq` of the last decision that they include.
"""

FORMAT = 5
APPLICATION = 0x4C694D32  # "LiM2", which `file` shows

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE decisions (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    time REAL NOT NULL,
    context BLOB NOT NULL, dtype TEXT NOT NULL, shape TEXT NOT NULL,
    arms TEXT NOT NULL, chosen INTEGER NOT NULL, propensity REAL NOT NULL,
    means BLOB NOT NULL, stds BLOB NOT NULL, propensities BLOB NOT NULL, exploit INTEGER NOT NULL,
    position INTEGER NOT NULL,
    settled INTEGER,
    items BLOB, raw BLOB, raw_items BLOB, slot INTEGER NOT NULL DEFAULT 0,
    key TEXT, metadata BLOB, active INTEGER NOT NULL DEFAULT 1, control TEXT
);
CREATE INDEX pending ON decisions (time) WHERE settled IS NULL;
CREATE TABLE events (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    time REAL NOT NULL,
    kind TEXT NOT NULL,
    decision INTEGER,
    reward REAL,
    change TEXT,
    token TEXT
);
"""

# New in the fourth format.
COLLECTED = """
CREATE INDEX keys ON decisions (key) WHERE key IS NOT NULL;
CREATE TABLE rewards (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    decision INTEGER NOT NULL,
    time REAL NOT NULL,
    reward REAL NOT NULL,
    name TEXT
);
CREATE INDEX of_decision ON rewards (decision);
CREATE TABLE batches (after INTEGER PRIMARY KEY, last INTEGER NOT NULL);
CREATE TABLE models (
    version INTEGER PRIMARY KEY AUTOINCREMENT,
    position INTEGER NOT NULL,
    time REAL NOT NULL,
    data BLOB NOT NULL
);
INSERT OR REPLACE INTO meta VALUES ('count erased', 0);
"""

# New in the fifth format: what proofs have summed up, of the decisions up to one; groups of decisions under a control.
PROOFS = "CREATE TABLE proofs (name TEXT PRIMARY KEY, seq INTEGER NOT NULL, sums TEXT NOT NULL) WITHOUT ROWID;"

# Counters, which triggers keep, so that no query counts a million rows.
COUNTS = """
INSERT OR REPLACE INTO meta SELECT 'count pending', count(*) FROM decisions WHERE settled IS NULL;
INSERT OR REPLACE INTO meta SELECT 'count reward', count(*) FROM events WHERE kind = 'reward';
INSERT OR REPLACE INTO meta SELECT 'count default', count(*) FROM events WHERE kind = 'default';
INSERT OR REPLACE INTO meta SELECT 'count dropped', count(*) FROM events WHERE kind = 'dropped';
INSERT OR REPLACE INTO meta SELECT 'count discarded', count(*) FROM events WHERE kind = 'discarded';
CREATE TRIGGER count_decided AFTER INSERT ON decisions WHEN new.settled IS NULL BEGIN
    UPDATE meta SET value = value + 1 WHERE key = 'count pending';
END;
CREATE TRIGGER count_settled AFTER UPDATE OF settled ON decisions
WHEN old.settled IS NULL AND new.settled IS NOT NULL BEGIN
    UPDATE meta SET value = value - 1 WHERE key = 'count pending';
END;
CREATE TRIGGER count_deleted AFTER DELETE ON decisions WHEN old.settled IS NULL BEGIN
    UPDATE meta SET value = value - 1 WHERE key = 'count pending';
END;
CREATE TRIGGER count_event AFTER INSERT ON events BEGIN
    UPDATE meta SET value = value + 1 WHERE key = 'count ' || new.kind;
END;
CREATE TRIGGER count_change AFTER UPDATE OF kind ON events BEGIN
    UPDATE meta SET value = value - 1 WHERE key = 'count ' || old.kind;
    UPDATE meta SET value = value + 1 WHERE key = 'count ' || new.kind;
END;
CREATE TRIGGER count_pruned AFTER DELETE ON events BEGIN
    UPDATE meta SET value = value - 1 WHERE key = 'count ' || old.kind;
END
"""

# Earlier format -> the statements to the next one. Columns are added at the end: no row is rewritten, and a process
# that has the file open by an earlier lim2 can still write its rows.
MIGRATIONS = {
    1: """
ALTER TABLE decisions ADD COLUMN items BLOB;
ALTER TABLE decisions ADD COLUMN raw BLOB;
ALTER TABLE decisions ADD COLUMN raw_items BLOB;
ALTER TABLE decisions ADD COLUMN slot INTEGER NOT NULL DEFAULT 0
""",
    2: "ALTER TABLE events ADD COLUMN token TEXT;" + COUNTS,
    3: """
ALTER TABLE decisions ADD COLUMN key TEXT;
ALTER TABLE decisions ADD COLUMN metadata BLOB;
ALTER TABLE decisions ADD COLUMN active INTEGER NOT NULL DEFAULT 1;
"""
    + COLLECTED,
    4: "ALTER TABLE decisions ADD COLUMN control TEXT;" + PROOFS,
}
