-- The group of a decision under a control, as JSON.
ALTER TABLE lim2.pending ADD COLUMN control text;
ALTER TABLE lim2.events ADD COLUMN control text;
