"""What is in the log's file, and how files of earlier formats come to have it.

Two tables. `decisions` has one row per decision, or per position of a slate (`slot`, from 1). Its context is a vector
(`context`, `dtype`, `shape`; a shape of ``null`` says that there is none), or raw JSON (`raw`), or both; so are its
candidates (`items`, `raw_items`). `settled` is the position of the event that settled it. `events` is what an agent
learns from, in this order: a reward, a default reward, a decision dropped or discarded, an arm added or removed.
An event's `token` is drawn when it is written: an agent that carries it knows its event in any copy of the file.
"""

FORMAT = 3
APPLICATION = 0x4C694D32  # "LiM2", which `file` shows

TOKEN = "lower(hex(randomblob(8)))"

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
    items BLOB, raw BLOB, raw_items BLOB, slot INTEGER NOT NULL DEFAULT 0
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

# What a file of each earlier format lacks. Columns are added at the end: no row is rewritten, and a process that has
# the file open by an earlier lim2 goes on writing its rows.
MIGRATIONS = {
    1: """
ALTER TABLE decisions ADD COLUMN items BLOB;
ALTER TABLE decisions ADD COLUMN raw BLOB;
ALTER TABLE decisions ADD COLUMN raw_items BLOB;
ALTER TABLE decisions ADD COLUMN slot INTEGER NOT NULL DEFAULT 0
""",
    2: "ALTER TABLE events ADD COLUMN token TEXT",
}
