"""The larger queries, and the columns of a decision in them."""

from lim2.log.entries import COLUMNS

NAMES = COLUMNS.split(", ")
OF_PENDING = ", ".join(f"d.{name}" for name in NAMES)
OF_EVENTS = OF_PENDING.replace("d.time", "d.decided")  # an event has a time of its own
WAITING = f"SELECT d.seq, d.learned, 'pending' AS kind, NULL::float8 AS reward, {OF_PENDING} FROM lim2.pending d"
SETTLED = f"SELECT d.seq, d.learned, d.kind, d.reward, {OF_EVENTS} FROM lim2.events d"
INSERT = (
    f"INSERT INTO lim2.pending (log, learned, {COLUMNS}) VALUES (%s, %s, {', '.join(['%s'] * len(NAMES))}) "
    "ON CONFLICT DO NOTHING RETURNING id"
)
TAKEN = (
    "SELECT d.id FROM lim2.pending d WHERE d.log = %(log)s AND d.id = ANY(%(others)s) "
    "UNION ALL SELECT d.id FROM lim2.events d WHERE d.log = %(log)s AND d.id = ANY(%(ids)s) "
    "AND d.position > (SELECT pruned FROM lim2.logs WHERE log = %(log)s)"
)
THERE = "SELECT 1 FROM lim2.logs WHERE log = %s"
_KEPT = (
    "LEFT JOIN LATERAL (SELECT array_agg(r.reward ORDER BY r.number) AS rewards, array_agg(r.name ORDER BY r.number) "
    "AS names FROM lim2.rewards r WHERE r.log = d.log AND r.seq = d.seq) k ON true"
)
FIND = f"SELECT d.id, d.seq, d.time, d.active, k.rewards, k.names FROM lim2.pending d {_KEPT} WHERE d.log = %s"
FIND_SETTLED = (
    f"SELECT d.id, d.seq, d.decided, d.active, k.rewards, k.names, d.position, d.kind, d.reward, d.change, d.token "
    f"FROM lim2.events d {_KEPT} WHERE d.log = %s AND d.position > %s AND d.id = ANY(%s)"
)
SETTLE = (
    "WITH d AS (DELETE FROM lim2.pending d WHERE d.log = %s AND d.seq = %s RETURNING d.*) "
    f"INSERT INTO lim2.events (log, position, time, kind, reward, token, seq, learned, {OF_EVENTS.replace('d.', '')}) "
    f"SELECT d.log, %s::bigint, %s::float8, %s::text, %s::float8, %s::text, d.seq, d.learned, {OF_PENDING} "
    "FROM (SELECT) g LEFT JOIN d ON true"  # a decision that is not pending is an error: its log would be NULL
)
OLDEST = "SELECT time FROM lim2.pending WHERE log = %s ORDER BY time, seq LIMIT 1"
# The size of all tables, of whichever log.
SIZE = (
    "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class "
    "WHERE relnamespace = 'lim2'::regnamespace AND relkind = 'r'"
)
