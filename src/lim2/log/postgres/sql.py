"""All statements of logs in PostgreSQL, apart from the tables (`migrations`).

A log has a number, by which its rows are known. `pending` has the decisions that are not settled; `events` has the
others, each with the event that settled it. Events up to the position `pruned` of a log are deleted for all readers.
"""

from __future__ import annotations

from lim2.log.entries import COLUMNS

_NAMES = COLUMNS.split(", ")
_OF_PENDING = ", ".join(f"d.{name}" for name in _NAMES)
_OF_EVENTS = _OF_PENDING.replace("d.time", "d.decided")  # the time of an event is that of its settlement
_EVENT_COLUMNS = _OF_EVENTS.replace("d.", "")
_PENDING = f"SELECT d.seq, d.learned, 'pending' AS kind, NULL::float8 AS reward, {_OF_PENDING} FROM lim2.pending d"
_SETTLED = f"SELECT d.seq, d.learned, d.kind, d.reward, {_OF_EVENTS} FROM lim2.events d"
_PRUNED = "(SELECT pruned FROM lim2.logs WHERE log = %(log)s)"

# Sessions

# Set what holds for a connection. A plan over many partitions takes longer than the query.
SET_SESSION = """SET synchronous_commit = {synchronous}; SET lock_timeout = '{timeout}s';
    SET idle_in_transaction_session_timeout = '{timeout}s'; SET client_min_messages = error;
    SET plan_cache_mode = force_generic_plan"""
# Read the number of the session, which a pooler may give to several connections.
SESSION = "SELECT pg_backend_pid()"
# Begin a transaction that reads a consistent snapshot.
BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Begin a transaction that writes; a lock keeps what it has read from changing.
BEGIN_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
# End a transaction whose process is suspended, from PostgreSQL 17.
SET_TRANSACTION_TIMEOUT = "SET LOCAL transaction_timeout = '{}s'"
# Keep partitions from being dropped while a transaction reads: they would be gone for earlier snapshots, too.
LOCK_PARTITIONS = "LOCK TABLE ONLY lim2.events IN ACCESS SHARE MODE"
# Remove deleted rows from tables and indices.
PURGE = "VACUUM (INDEX_CLEANUP ON) lim2.pending, lim2.rewards, lim2.events"

# Logs

# Create a log unless there is one of this name.
CREATE_LOG = """INSERT INTO lim2.logs (name, head) SELECT %(name)s, %(head)s
    WHERE NOT EXISTS (SELECT FROM lim2.logs WHERE name = %(name)s) ON CONFLICT DO NOTHING"""
# Find the number of a log.
LOG_NUMBER = "SELECT log FROM lim2.logs WHERE name = %s"
# See whether a log still exists.
LOG_EXISTS = "SELECT 1 FROM lim2.logs WHERE log = %s"
# Read the values of a log.
HEAD = "SELECT last, pruned, head FROM lim2.logs WHERE log = %s"
# Read them, and let no other transaction settle decisions.
LOCKED_HEAD = f"{HEAD} FOR NO KEY UPDATE"
# Store the values of a log.
SET_HEAD = "UPDATE lim2.logs SET last = %s, pruned = %s, head = %s WHERE log = %s"
# Delete a log.
DELETE_LOG = "DELETE FROM lim2.logs WHERE name = %s RETURNING log"
# Delete the rows of a log in all tables.
DELETE_ROWS = tuple(
    f"DELETE FROM lim2.{table} WHERE log = %s"
    for table in ("pending", "rewards", "batches", "models", "proofs", "changes", "events")
)
# Delete what a process that did not know yet has inserted into a deleted log.
DELETE_ORPHANS = "DELETE FROM lim2.pending p WHERE NOT EXISTS (SELECT FROM lim2.logs l WHERE l.log = p.log)"
# Read the size of all tables, of all logs together.
SIZE = """SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
    WHERE relnamespace = 'lim2'::regnamespace AND relkind = 'r'"""
# Columns that describe a log, of the row `l` of lim2.logs.
STATE = f"""l.last, l.pruned, l.head, (SELECT count(*) FROM lim2.pending p WHERE p.log = l.log),
    (SELECT min(p.time) FROM lim2.pending p WHERE p.log = l.log), ({SIZE})"""

# Decisions

# Insert a decision; no row is returned if its ID is pending already.
INSERT = f"""INSERT INTO lim2.pending (log, learned, {COLUMNS}) VALUES (%s, %s, {", ".join(["%s"] * len(_NAMES))})
    ON CONFLICT DO NOTHING RETURNING id"""
# Find the IDs that are taken, by pending or by settled decisions.
TAKEN = f"""SELECT d.id FROM lim2.pending d WHERE d.log = %(log)s AND d.id = ANY(%(pending)s)
    UNION ALL SELECT d.id FROM lim2.events d WHERE d.log = %(log)s AND d.id = ANY(%(settled)s)
    AND d.position > {_PRUNED}"""
_REWARDS_OF_EACH = """LEFT JOIN LATERAL (SELECT array_agg(r.reward ORDER BY r.number) AS rewards,
    array_agg(r.name ORDER BY r.number) AS names FROM lim2.rewards r WHERE r.log = d.log AND r.seq = d.seq) k ON true"""
_FIND = f"SELECT d.id, d.seq, d.time, d.active, k.rewards, k.names FROM lim2.pending d {_REWARDS_OF_EACH}"
# Read pending decisions with their stored rewards, by ID.
FIND = f"{_FIND} WHERE d.log = %s AND d.id = ANY(%s)"
# Read pending decisions made up to a time in the same form.
OVERDUE = f"{_FIND} WHERE d.log = %s AND d.time <= %s ORDER BY d.time, d.seq"
# Read settled decisions in the same form, with their events.
FIND_SETTLED = f"""SELECT d.id, d.seq, d.decided, d.active, k.rewards, k.names, d.position, d.kind, d.reward,
    d.change, d.token FROM lim2.events d {_REWARDS_OF_EACH} WHERE d.log = %s AND d.position > %s AND d.id = ANY(%s)"""
# Read the time of the oldest pending decision.
OLDEST = "SELECT time FROM lim2.pending WHERE log = %s ORDER BY time, seq LIMIT 1"
# Count the pending decisions.
COUNT_PENDING = "SELECT count(*) FROM lim2.pending WHERE log = %s"
# Let a pending decision count.
ACTIVATE = "UPDATE lim2.pending SET active = 1 WHERE log = %s AND seq = %s"
# Read a whole pending decision.
PENDING_DECISION = f"{_PENDING} WHERE d.log = %s AND d.id = %s"
# Read a whole settled decision with its status and reward.
SETTLED_DECISION = f"{_SETTLED} WHERE d.log = %s AND d.id = %s AND d.position > %s"
_PENDING_PAGE = f"({_PENDING} WHERE d.log = %(log)s AND d.seq > %(after)s"
_SETTLED_PAGE = f"({_SETTLED} WHERE d.log = %(log)s AND d.seq > %(after)s AND d.position > %(pruned)s"
_PAGE = "ORDER BY d.seq LIMIT %(limit)s)"
# Read a page of whole decisions, by filter.
DECISIONS = {
    "pending": f"{_PENDING_PAGE} {_PAGE}",
    "rewarded": f"{_SETTLED_PAGE} AND d.slot <= 1 AND d.kind IN ('reward', 'default') {_PAGE}",
    "all": f"{_PENDING_PAGE} AND d.slot <= 1 {_PAGE} UNION ALL {_SETTLED_PAGE} AND d.slot <= 1 {_PAGE} "
    "ORDER BY seq LIMIT %(limit)s",
}
# Find the seq after which exactly so many decisions follow; limit is one more than count.
NEWEST = """SELECT seq FROM ((SELECT seq FROM lim2.pending WHERE log = %(log)s ORDER BY seq DESC LIMIT %(limit)s)
    UNION ALL (SELECT seq FROM lim2.events WHERE log = %(log)s AND seq IS NOT NULL AND position > %(pruned)s
    ORDER BY seq DESC LIMIT %(limit)s)) d ORDER BY seq DESC OFFSET %(count)s LIMIT 1"""
_OF_KEY = "WHERE log = %(log)s AND key = %(key)s AND slot = 0"
# Find the latest decision with a key since a time, slates left out.
LATEST = f"""SELECT id FROM (SELECT id, time, seq FROM lim2.pending {_OF_KEY} AND time >= %(since)s
    UNION ALL SELECT id, decided, seq FROM lim2.events {_OF_KEY} AND decided >= %(since)s AND position > %(pruned)s) d
    ORDER BY time DESC, seq DESC LIMIT 1"""
# Count pending and dropped decisions.
UNREWARDED = """SELECT (SELECT count(*) FROM lim2.pending WHERE log = %(log)s AND seq > %(after)s AND slot <= 1) +
    (SELECT count(*) FROM lim2.events WHERE log = %(log)s AND seq > %(after)s AND slot <= 1 AND kind = 'dropped'
    AND position > %(pruned)s)"""

# Rewards

# Store a reward that is collected or came too late.
ADD_REWARD = "INSERT INTO lim2.rewards (log, seq, time, reward, name) VALUES (%s, %s, %s, %s, %s)"
# Read the stored rewards of a decision in order of arrival.
REWARDS = "SELECT reward, name FROM lim2.rewards WHERE log = %s AND seq = %s ORDER BY number"

# Events

# Move a decision from `pending` to `events`; one that is not pending is an error: its log would be NULL.
SETTLE = f"""WITH d AS (DELETE FROM lim2.pending d WHERE d.log = %s AND d.seq = %s RETURNING d.*)
    INSERT INTO lim2.events (log, position, time, kind, reward, token, seq, learned, {_EVENT_COLUMNS})
    SELECT d.log, %s::bigint, %s::float8, %s::text, %s::float8, %s::text, d.seq, d.learned, {_OF_PENDING}
    FROM (SELECT) g LEFT JOIN d ON true"""
_CHANGE = "(log, position, time, kind, change, token) VALUES (%s, %s, %s, %s, %s, %s)"
# Append an event without a decision.
APPEND = f"INSERT INTO lim2.events {_CHANGE}"
# Store a change of arms where pruning does not reach it.
ADD_CHANGE = f"INSERT INTO lim2.changes {_CHANGE}"
# Read the kind of an event, for the counters.
KIND = "SELECT kind FROM lim2.events WHERE log = %s AND position = %s"
# Change the kind of an event.
RELABEL = "UPDATE lim2.events SET kind = %s WHERE log = %s AND position = %s"
# Read an event without its decision.
EVENT = "SELECT position, kind, reward, change, token FROM lim2.events WHERE log = %s AND position = %s"
# Read a page of events with the rows of their decisions.
EVENTS = f"""SELECT d.position, d.kind, d.reward, d.change, d.token, {_OF_EVENTS} FROM lim2.events d
    WHERE d.log = %s AND d.position > %s AND d.position <= %s ORDER BY d.position LIMIT %s"""
# Read the changes of arms between two positions; the second, twice, may be NULL.
CHANGES = """SELECT kind, change FROM lim2.changes WHERE log = %s AND position > %s
    AND (%s::bigint IS NULL OR position < %s) ORDER BY position"""
# Find the first later position whose event is younger than a time.
FIRST_AFTER = """SELECT position FROM lim2.events WHERE log = %s AND position > %s AND time > %s ORDER BY position
    LIMIT 1"""

# Batches

# Find the next batch that begins at a position or later.
NEXT_BATCH = "SELECT after, last FROM lim2.batches WHERE log = %s AND after >= %s ORDER BY after LIMIT 1"
# Store the events that are learned as one: after a position, up to another.
ADD_BATCH = "INSERT INTO lim2.batches (log, after, last) VALUES (%s, %s, %s)"

# Models

# Publish a model.
ADD_MODEL = "INSERT INTO lim2.models (log, version, position, time, data) VALUES (%s, %s, %s, %s, %s)"
# Delete the models up to a version.
DELETE_MODELS = "DELETE FROM lim2.models WHERE log = %s AND version <= %s"
# Read the latest model, unless the reader has it.
MODEL = """SELECT version, position, time, data FROM lim2.models
    WHERE log = %s AND version > %s ORDER BY version DESC LIMIT 1"""

# Proofs

# Read the names of the proofs that are kept.
PROOFS = "SELECT name FROM lim2.proofs WHERE log = %s ORDER BY name"
# Read a proof.
PROOF = "SELECT seq, sums FROM lim2.proofs WHERE log = %s AND name = %s"
# Keep a proof.
PUT_PROOF = """INSERT INTO lim2.proofs (log, name, seq, sums) VALUES (%s, %s, %s, %s)
    ON CONFLICT (log, name) DO UPDATE SET seq = excluded.seq, sums = excluded.sums"""
# Count the decisions after one.
COUNT_AFTER = """SELECT (SELECT count(*) FROM lim2.pending WHERE log = %(log)s AND seq > %(after)s) +
    (SELECT count(*) FROM lim2.events WHERE log = %(log)s AND seq > %(after)s AND position > %(pruned)s)"""

# Deleting

_EXPIRING = "FROM lim2.events WHERE log = %(log)s AND position > %(pruned)s AND position <= %(upto)s"
# Count the events that are about to be pruned.
PRUNED_KINDS = f"SELECT kind, count(*) {_EXPIRING} AND change IS NULL GROUP BY kind"
# Delete what belongs to pruned events; the events themselves go with their partition.
PRUNE = (
    f"DELETE FROM lim2.rewards WHERE log = %(log)s AND seq IN (SELECT seq {_EXPIRING} AND seq IS NOT NULL)",
    "DELETE FROM lim2.batches WHERE log = %(log)s AND last <= %(upto)s",
)
_WITH_KEY = "WHERE log = %(log)s AND key = %(key)s"
# Delete the stored rewards of the decisions with a key.
ERASE_REWARDS = tuple(
    f"DELETE FROM lim2.rewards WHERE log = %(log)s AND seq IN (SELECT seq FROM lim2.{table} {_WITH_KEY})"
    for table in ("pending", "events")
)
# Count the events of the settled decisions with a key.
ERASED_KINDS = f"SELECT kind, count(*) FROM lim2.events {_WITH_KEY} AND position > %(pruned)s GROUP BY kind"
# Empty those events, and keep their positions.
ERASE_EVENTS = f"""UPDATE lim2.events SET kind = 'erased', reward = NULL, seq = NULL, learned = NULL,
    {", ".join(f"{name} = NULL" for name in _EVENT_COLUMNS.split(", "))} {_WITH_KEY}"""
# Delete the pending decisions with a key, and count them.
ERASE_PENDING = f"WITH gone AS (DELETE FROM lim2.pending {_WITH_KEY} RETURNING 1) SELECT count(*) FROM gone"

# Copying a log

_REWARD_ARRAYS = ", ".join(
    f"ARRAY(SELECT r.{name} FROM lim2.rewards r WHERE r.log = d.log AND r.seq = d.seq ORDER BY r.number)"
    for name in ("time", "reward", "name")
)
_EVENT = "position, time, kind, reward, change, token"
_NO_EVENT = "NULL::bigint, NULL::float8, NULL, NULL::float8, NULL, NULL"
_EVENT_OF_DECISION = ", ".join(f"d.{name}" for name in _EVENT.split(", "))
_COPIED = "WHERE d.log = %(log)s AND d.seq > %(after)s"
# Read a page of decisions with the events that settled them and their stored rewards.
COPIED_DECISIONS = f"""(SELECT d.seq, d.learned, {_NO_EVENT}, {_REWARD_ARRAYS}, {_OF_PENDING}
    FROM lim2.pending d {_COPIED} {_PAGE} UNION ALL
    (SELECT d.seq, d.learned, {_EVENT_OF_DECISION}, {_REWARD_ARRAYS}, {_OF_EVENTS}
    FROM lim2.events d {_COPIED} AND d.position > {_PRUNED} {_PAGE} ORDER BY seq LIMIT %(limit)s"""
# Read a page of the events that have no decision; pruned changes of arms are in a table of their own.
COPIED_EVENTS = f"""(SELECT {_EVENT} FROM lim2.events WHERE log = %(log)s AND seq IS NULL
    AND position > greatest(%(after)s, {_PRUNED}) ORDER BY position LIMIT %(limit)s) UNION ALL
    (SELECT position, time, kind, NULL::float8, change, token FROM lim2.changes
    WHERE log = %(log)s AND position > %(after)s AND position <= {_PRUNED} ORDER BY position LIMIT %(limit)s)
    ORDER BY position LIMIT %(limit)s"""
# Read the first and the last time of an event.
SPAN = f"SELECT min(time), max(time) FROM lim2.events WHERE log = %(log)s AND position > {_PRUNED}"
# Read all batches.
BATCHES = "SELECT after, last FROM lim2.batches WHERE log = %(log)s ORDER BY after"
# Read all models.
MODELS = "SELECT version, position, time, data FROM lim2.models WHERE log = %(log)s ORDER BY version"
# Read all proofs.
ALL_PROOFS = "SELECT name, seq, sums FROM lim2.proofs WHERE log = %(log)s ORDER BY name"
# Read and lock the log that a copy is written to.
COPY_TARGET = "SELECT last, head FROM lim2.logs WHERE log = %(log)s FOR UPDATE"
# See whether the log has decisions.
HAS_PENDING = "SELECT FROM lim2.pending WHERE log = %(log)s LIMIT 1"
# Draw numbers for decisions.
DRAW_SEQS = "SELECT nextval('lim2.decisions') FROM generate_series(1, %(n)s)"


def _insert(table: str, columns: str) -> str:
    return f"INSERT INTO lim2.{table} ({columns}) VALUES ({', '.join(['%s'] * len(columns.split(', ')))})"


# Write a pending decision.
COPY_PENDING = _insert("pending", f"log, seq, learned, {COLUMNS}")
# Write a settled decision with its event.
COPY_SETTLED = _insert("events", f"log, seq, learned, {_EVENT}, {_EVENT_COLUMNS}")
# Write a stored reward.
COPY_REWARD = _insert("rewards", "log, seq, time, reward, name")
# Write an event without a decision.
COPY_EVENT = _insert("events", f"log, {_EVENT}")

# Leases: advisory locks, each with two numbers

# Take a lease, unless another session has it.
TRY_LEASE = "SELECT pg_try_advisory_lock(%s, %s)"
# Release a lease.
RELEASE_LEASE = "SELECT pg_advisory_unlock(%s, %s)"
# See whether any session has a lease.
IS_LEASED = """SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND classid = %s AND objid = %s)"""
# Store the number of a new lease.
NEXT_EPOCH = """UPDATE lim2.logs SET head = jsonb_set(head, '{epoch}', to_jsonb((head->>'epoch')::bigint + 1))
    WHERE log = %s RETURNING (head->>'epoch')::bigint"""
# End a session that says nothing for so long, from PostgreSQL 14.
SET_SESSION_TIMEOUT = "SET idle_session_timeout = '{}s'"
# Keep a session from being idle.
HEARTBEAT = "SELECT 1"

# Notifications

# Receive the notifications of a channel.
LISTEN = "LISTEN {}"
# Notify subscribers of a log by its number.
NOTIFY = "SELECT pg_notify(%s, %s)"
# Commit a notification without a flush of the disk: it need not survive a crash.
SET_ASYNCHRONOUS = "SET LOCAL synchronous_commit = off"

# Migrations

# Create the table of applied migrations.
CREATE_MIGRATIONS = """CREATE SCHEMA IF NOT EXISTS lim2; CREATE TABLE IF NOT EXISTS lim2.migrations
    (number integer PRIMARY KEY, name text NOT NULL, applied timestamptz NOT NULL DEFAULT now())"""
# See whether the database has the table of migrations.
HAS_MIGRATIONS = "SELECT to_regclass('lim2.migrations')"
# Read the number of the last applied migration.
LAST_MIGRATION = "SELECT coalesce(max(number), 0) FROM lim2.migrations"
# Note that a migration was applied.
ADD_MIGRATION = "INSERT INTO lim2.migrations (number, name) VALUES (%s, %s)"
# Wait for others who migrate the database.
LOCK_MIGRATIONS = "SELECT pg_advisory_xact_lock(%s)"

# Partitions

# Read the names of the partitions of the events.
PARTITIONS = """SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'lim2.events'::regclass AND c.relname <> 'events_default'"""
# Maintain partitions only if no other process does.
TRY_MAINTENANCE = "SELECT pg_try_advisory_xact_lock(%s)"
# Wait for the lock of the events for a second only: later readers wait, too.
SET_SHORT_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '1s'"
# Create a partition for the events between two times.
CREATE_PARTITION = "CREATE TABLE lim2.{} PARTITION OF lim2.events FOR VALUES FROM ({}) TO ({})"
# Keep readers out while partitions are dropped.
LOCK_EVENTS = "LOCK TABLE ONLY lim2.events IN ACCESS EXCLUSIVE MODE"
# Drop a partition with its rows.
DROP_PARTITION = "DROP TABLE lim2.{}"
# See whether any log has events in a partition that it has not pruned.
IS_NEEDED = """SELECT EXISTS (SELECT FROM lim2.logs l WHERE EXISTS (SELECT FROM lim2.{} e
    WHERE e.log = l.log AND e.position > l.pruned))"""
# The condition that a log needs no events of a partition, of the row `l` of lim2.logs.
IS_PAST = "NOT EXISTS (SELECT FROM lim2.{} e WHERE e.log = l.log AND e.position > l.pruned)"
# Delete some rows of a partition that logs have pruned.
DELETE_PRUNED = """DELETE FROM lim2.{table} WHERE ctid = ANY(ARRAY(SELECT e.ctid FROM lim2.logs l CROSS JOIN LATERAL
    (SELECT ctid FROM lim2.{table} WHERE log = l.log AND position <= l.pruned LIMIT %(limit)s) e
    WHERE l.pruned > 0 AND {condition} LIMIT %(limit)s))"""
