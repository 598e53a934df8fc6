-- Bandits of the service: see `lim2.serve.catalog`. A description is JSON; its stamp changes whenever it is written.
CREATE SEQUENCE lim2.stamps;
CREATE TABLE lim2.bandits (
    name text COLLATE "C" PRIMARY KEY,
    description text NOT NULL,
    stamp bigint NOT NULL DEFAULT nextval('lim2.stamps')
);

-- What belongs to a bandit beside its log: evaluations, models to start from.
CREATE TABLE lim2.documents (
    bandit text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (bandit, kind, id)
);

-- What belongs to the whole service: its key.
CREATE TABLE lim2.service (
    name text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);
