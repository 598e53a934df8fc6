-- A log is a row here, and what others must agree on: its last position, and all else about it as JSON. Whoever settles
-- a decision locks this row until the transaction ends, so positions are dense and become visible in their order.
-- Decisions are inserted without this lock. There are no foreign keys, since those would lock it.
CREATE TABLE lim2.logs (
    log integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    last bigint NOT NULL DEFAULT 0,    -- the position of the last event
    pruned bigint NOT NULL DEFAULT 0,  -- events up to this position are deleted, also where their rows are still there
    head jsonb NOT NULL
) WITH (fillfactor = 50);

-- The order in which decisions were made, over all logs.
CREATE SEQUENCE lim2.decisions;

-- Decisions that wait. See `lim2.log.entries` for the columns.
CREATE TABLE lim2.pending (
    log integer NOT NULL,
    seq bigint NOT NULL DEFAULT nextval('lim2.decisions'),
    learned bigint NOT NULL,  -- the position up to which the agent that made it had learned
    id text COLLATE "C" NOT NULL,
    time double precision NOT NULL,
    context bytea NOT NULL,
    dtype text NOT NULL,
    shape text NOT NULL,
    arms text NOT NULL,
    chosen integer NOT NULL,
    propensity double precision NOT NULL,
    means bytea NOT NULL,
    stds bytea NOT NULL,
    propensities bytea NOT NULL,
    exploit smallint NOT NULL,
    items bytea,
    raw bytea,
    raw_items bytea,
    slot integer NOT NULL,
    key text COLLATE "C",
    metadata bytea,
    active smallint NOT NULL,
    PRIMARY KEY (log, id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE UNIQUE INDEX pending_seq ON lim2.pending (log, seq);
CREATE INDEX pending_time ON lim2.pending (log, time, seq);
CREATE INDEX pending_key ON lim2.pending (log, key) WHERE key IS NOT NULL;
-- A decision and a slate cannot have the same name: the name of a slate is the id of its first position without "/1".
CREATE UNIQUE INDEX pending_name ON lim2.pending (log, (CASE slot WHEN 1 THEN left(id, -2) ELSE id END))
    WHERE slot <= 1;

-- What an agent learns from, in the order of `position`, each with the decision that it is about. Rows are appended,
-- and go with their partition.
CREATE TABLE lim2.events (
    log integer NOT NULL,
    position bigint NOT NULL,
    time double precision NOT NULL,
    kind text NOT NULL,
    reward double precision,
    change text,
    token text,
    seq bigint,
    learned bigint,
    id text COLLATE "C",
    decided double precision,  -- the decision's time
    context bytea,
    dtype text,
    shape text,
    arms text,
    chosen integer,
    propensity double precision,
    means bytea,
    stds bytea,
    propensities bytea,
    exploit smallint,
    items bytea,
    raw bytea,
    raw_items bytea,
    slot integer,
    key text COLLATE "C",
    metadata bytea,
    active smallint,
    PRIMARY KEY (log, position, time)
) PARTITION BY RANGE (time);
CREATE INDEX events_id ON lim2.events (log, id) WHERE id IS NOT NULL;
CREATE INDEX events_seq ON lim2.events (log, seq) WHERE seq IS NOT NULL;
CREATE INDEX events_key ON lim2.events (log, key) WHERE key IS NOT NULL;
CREATE TABLE lim2.events_default PARTITION OF lim2.events DEFAULT;

-- Changes of arms once more: these stay when the events are deleted.
CREATE TABLE lim2.changes (
    log integer NOT NULL,
    position bigint NOT NULL,
    time double precision NOT NULL,
    kind text NOT NULL,
    change text NOT NULL,
    token text,
    PRIMARY KEY (log, position)
);

-- Rewards that are collected until a decision settles, or that came too late.
CREATE TABLE lim2.rewards (
    log integer NOT NULL,
    seq bigint NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY,
    time double precision NOT NULL,
    reward double precision NOT NULL,
    name text,
    PRIMARY KEY (log, seq, number)
);

-- Events after a position, up to another one, that were learned as one.
CREATE TABLE lim2.batches (
    log integer NOT NULL,
    after bigint NOT NULL,
    last bigint NOT NULL,
    PRIMARY KEY (log, after)
);

-- Agents that were published.
CREATE TABLE lim2.models (
    log integer NOT NULL,
    version bigint NOT NULL,
    position bigint NOT NULL,
    time double precision NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (log, version)
);
ALTER TABLE lim2.models ALTER COLUMN data SET STORAGE EXTERNAL;
