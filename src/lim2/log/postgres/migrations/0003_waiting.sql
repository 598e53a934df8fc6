-- What tells which bandits have something to learn, without opening them: which log a bandit has, and at which stamp of
-- its description the one who learns has looked.
ALTER TABLE lim2.bandits ADD COLUMN log text COLLATE "C" GENERATED ALWAYS AS (description::jsonb ->> 'log') STORED;
ALTER TABLE lim2.bandits ADD COLUMN looked bigint NOT NULL DEFAULT 0;
