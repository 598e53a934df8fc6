"""All statements of a log in SQLite, apart from its tables (`schema`)."""

from __future__ import annotations

import functools

from lim2.log.entries import COLUMNS

_DECISION = ", ".join(f"d.{column}" for column in COLUMNS.split(", "))
_STORED = f"""SELECT d.seq, d.position, coalesce(e.kind, 'pending'), e.reward, {_DECISION} FROM decisions d
    LEFT JOIN events e ON e.position = d.settled"""
_FILTERS = {
    "pending": "d.settled IS NULL",
    "rewarded": "d.slot <= 1 AND coalesce(e.kind, '') IN ('reward', 'default')",
    "all": "d.slot <= 1",
}

# Connections

# Read the number of the format.
FORMAT = "PRAGMA user_version"
# Read which application the file belongs to.
APPLICATION = "PRAGMA application_id"
# Count the tables: an empty file has none.
TABLES = "SELECT count(*) FROM sqlite_master"
# Set the number of the format.
SET_FORMAT = "PRAGMA user_version = {}"
# Mark the file as a log.
SET_APPLICATION = "PRAGMA application_id = {}"
# Let readers and one writer work at the same time.
SET_WAL = "PRAGMA journal_mode = WAL"
# Flush the disk in each transaction ("full"), or only when the WAL file is copied.
SET_SYNCHRONOUS = "PRAGMA synchronous = {}"
# Let a writer copy the WAL file into the database when it has so many pages.
SET_AUTOCHECKPOINT = "PRAGMA wal_autocheckpoint = {}"
# Shrink the WAL file to 16 MB when it starts again.
SET_WAL_SIZE = "PRAGMA journal_size_limit = 16777216"
# Overwrite deleted rows.
SET_SECURE_DELETE = "PRAGMA secure_delete = ON"
# Open the WAL file, so that closing removes it.
TOUCH = "SELECT 1 FROM meta"
# Copy what can be copied from the WAL file without waiting; the second column is its number of pages.
CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"
# Copy the WAL file and empty it; the first column says whether a reader is in the way.
TRUNCATE_WAL = "PRAGMA wal_checkpoint(TRUNCATE)"
# Write a copy of the database to a new file.
BACKUP = "VACUUM INTO ?"

# Values of the log

# Read a value.
GET = "SELECT value FROM meta WHERE key = ?"
# Store a value.
PUT = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
# Remove a value.
REMOVE = "DELETE FROM meta WHERE key = ?"
# Read the counters, which triggers keep.
COUNTS = "SELECT key, value FROM meta WHERE key LIKE 'count %'"

# Decisions

# Look for a decision with an ID.
TAKEN = "SELECT 1 FROM decisions WHERE id = ?"
# Read what is needed to settle a decision.
FIND = "SELECT seq, time, settled, active FROM decisions WHERE id = ?"
# Find the pending decisions made up to a time.
OVERDUE = "SELECT seq, time, settled, active FROM decisions WHERE settled IS NULL AND time <= ? ORDER BY time, seq"
# Read the time of the oldest pending decision.
OLDEST = "SELECT time FROM decisions WHERE settled IS NULL ORDER BY time LIMIT 1"
# Let a decision count.
ACTIVATE = "UPDATE decisions SET active = 1 WHERE seq = ?"
# Read a whole decision with its status and reward.
DECISION = f"{_STORED} WHERE d.id = ?"
# Read a page of whole decisions, by filter.
DECISIONS = {
    filter: f"{_STORED} WHERE d.seq > ? AND {condition} ORDER BY d.seq LIMIT ?"
    for filter, condition in _FILTERS.items()
}
# Find the seq after which exactly so many decisions follow.
NEWEST = "SELECT seq FROM decisions ORDER BY seq DESC LIMIT 1 OFFSET ?"
# Find the latest decision with a key since a time, slates left out.
LATEST = "SELECT id FROM decisions WHERE key = ? AND time >= ? AND slot = 0 ORDER BY time DESC, seq DESC LIMIT 1"
# Count pending and dropped decisions.
UNREWARDED = """SELECT count(*) FROM decisions d LEFT JOIN events e ON e.position = d.settled
    WHERE d.seq > ? AND d.slot <= 1 AND coalesce(e.kind, 'pending') IN ('pending', 'dropped')"""

# Rewards

# Store a reward that is collected or came too late.
ADD_REWARD = "INSERT INTO rewards (decision, time, reward, name) VALUES (?, ?, ?, ?)"
# Read the stored rewards of a decision in order of arrival.
REWARDS = "SELECT reward, name FROM rewards WHERE decision = ? ORDER BY number"

# Events

# Append an event with a random token, by which an agent recognises it in any copy of the file.
APPEND = """INSERT INTO events (time, kind, decision, reward, change, token) VALUES (?, ?, ?, ?, ?,
    lower(hex(randomblob(8))))"""
# Note the event that settled a decision.
SETTLE = "UPDATE decisions SET settled = ? WHERE seq = ?"
# Change the kind of an event.
RELABEL = "UPDATE events SET kind = ? WHERE position = ?"
# Read an event without its decision.
EVENT = "SELECT position, kind, reward, change, token FROM events WHERE position = ?"
# Read a page of events with the rows of their decisions.
EVENTS = f"""SELECT e.position, e.kind, e.reward, e.change, e.token, {_DECISION} FROM events e
    LEFT JOIN decisions d ON d.seq = e.decision WHERE e.position > ? AND e.position <= ? ORDER BY e.position LIMIT ?"""
# Read the changes of arms between two positions; the second, twice, may be NULL.
CHANGES = """SELECT kind, change FROM events WHERE change IS NOT NULL AND position > ?
    AND (? IS NULL OR position < ?) ORDER BY position"""
# Read the last position, including deleted ones: the counter of AUTOINCREMENT.
LAST = "SELECT seq FROM sqlite_sequence WHERE name = 'events'"
# Find the first later position whose event is younger than a time.
FIRST_AFTER = "SELECT position FROM events WHERE position > ? AND time > ? ORDER BY position LIMIT 1"

# Batches

# Find the next batch that begins at a position or later.
NEXT_BATCH = "SELECT after, last FROM batches WHERE after >= ? ORDER BY after LIMIT 1"
# Store the events that are learned as one: after a position, up to another.
ADD_BATCH = "INSERT INTO batches VALUES (?, ?)"

# Models

# Delete the models that have at least so many later ones.
DELETE_OLD_MODELS = "DELETE FROM models WHERE version <= (SELECT max(version) FROM models) - ?"
# Publish a model.
ADD_MODEL = "INSERT INTO models (position, time, data) VALUES (?, ?, ?)"
# Read the position of the latest model.
PUBLISHED = "SELECT position FROM models ORDER BY version DESC LIMIT 1"
# Read the latest model, unless the reader has it.
MODEL = "SELECT version, position, time, data FROM models WHERE version > ? ORDER BY version DESC LIMIT 1"

# Proofs

# Read the names of the proofs that are kept.
PROOFS = "SELECT name FROM proofs ORDER BY name"
# Read a proof.
PROOF = "SELECT seq, sums FROM proofs WHERE name = ?"
# Keep a proof.
PUT_PROOF = "INSERT OR REPLACE INTO proofs VALUES (?, ?, ?)"
# Count the decisions after one.
COUNT_AFTER = "SELECT count(*) FROM decisions WHERE seq > ?"

# Deleting

_PRUNED = "SELECT decision FROM events WHERE position <= ? AND decision IS NOT NULL"
# Delete the events up to a position with their decisions, and keep changes of arms.
PRUNE = (
    f"DELETE FROM rewards WHERE decision IN ({_PRUNED})",
    f"DELETE FROM decisions WHERE seq IN ({_PRUNED})",
    "DELETE FROM events WHERE position <= ? AND change IS NULL",
    "DELETE FROM batches WHERE last <= ?",
)
_WITH_KEY = "SELECT seq FROM decisions WHERE key = ?"
# Delete the decisions with a key; the last statement counts them.
ERASE = (
    f"DELETE FROM rewards WHERE decision IN ({_WITH_KEY})",
    f"UPDATE events SET kind = 'erased', decision = NULL, reward = NULL WHERE decision IN ({_WITH_KEY})",
    "DELETE FROM decisions WHERE key = ?",
)

# Copying a log

# Read the values of the log without its counters.
ALL_VALUES = "SELECT key, value FROM meta WHERE key NOT LIKE 'count %'"
# Read the counters of AUTOINCREMENT.
SEQUENCES = "SELECT name, seq FROM sqlite_sequence"
# Read a page of decisions with the events that settled them.
COPIED_DECISIONS = f"""SELECT d.seq, d.position, e.position, e.time, e.kind, e.reward, e.change, e.token,
    {_DECISION} FROM decisions d LEFT JOIN events e ON e.position = d.settled WHERE d.seq > ? ORDER BY d.seq LIMIT ?"""
# Read the stored rewards of a decision with their times.
COPIED_REWARDS = "SELECT time, reward, name FROM rewards WHERE decision = ? ORDER BY number"
# Read a page of the events that have no decision.
COPIED_EVENTS = """SELECT position, time, kind, reward, change, token FROM events
    WHERE decision IS NULL AND position > ? ORDER BY position LIMIT ?"""
# Read the first and the last time of an event.
SPAN = "SELECT min(time), max(time) FROM events"
# Read all batches.
BATCHES = "SELECT after, last FROM batches ORDER BY after"
# Read all models.
MODELS = "SELECT version, position, time, data FROM models ORDER BY version"
# Read all proofs.
ALL_PROOFS = "SELECT name, seq, sums FROM proofs ORDER BY name"
# See whether anything was ever written: AUTOINCREMENT counts from 1.
WRITTEN = "SELECT seq FROM sqlite_sequence WHERE seq > 0"
# Write an event with its position and token.
COPY_EVENT = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)"
# Write a model with its version.
COPY_MODEL = "INSERT INTO models VALUES (?, ?, ?, ?)"
# Remove a counter of AUTOINCREMENT.
REMOVE_SEQUENCE = "DELETE FROM sqlite_sequence WHERE name = ?"
# Set a counter of AUTOINCREMENT.
ADD_SEQUENCE = "INSERT INTO sqlite_sequence VALUES (?, ?)"


@functools.cache
def insert(count: int, columns: str = "position") -> str:
    """Return the statement that inserts so many decisions, with further columns."""
    names = f"{COLUMNS}, {columns}"
    row = f"({', '.join('?' * len(names.split(', ')))})"
    return f"INSERT INTO decisions ({names}) VALUES {', '.join([row] * count)}"
