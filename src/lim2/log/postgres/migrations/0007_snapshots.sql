-- What decides, posted by learners for deciders: see `lim2.serve.snapshots`. The table writes no WAL. It is empty after a
-- crash of the server and on a standby that is promoted; learners then post again, and models are in `lim2.models`.
CREATE UNLOGGED TABLE lim2.snapshots (
    bandit text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL DEFAULT 0,
    position bigint NOT NULL DEFAULT 0,
    failure text,
    content bytea
);
-- Both are compressed already.
ALTER TABLE lim2.snapshots ALTER COLUMN content SET STORAGE EXTERNAL;
ALTER TABLE lim2.models ALTER COLUMN data SET STORAGE EXTERNAL;
