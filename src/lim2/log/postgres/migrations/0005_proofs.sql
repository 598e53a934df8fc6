-- What proofs have summed up, of the decisions up to one.
CREATE TABLE lim2.proofs (
    log integer NOT NULL,
    name text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    sums text NOT NULL,
    PRIMARY KEY (log, name)
);
