-- The log of a bandit is written with its description. It was computed from it, which fails where the description has
-- the character NUL: text may have the JSON escape of it, jsonb may not.
ALTER TABLE lim2.bandits ALTER COLUMN log DROP EXPRESSION;
