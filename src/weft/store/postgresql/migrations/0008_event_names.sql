-- From this version on, events are written as `task.suspended` and `task.released`, and the prompt of a step as
-- `params.prompt`. Older rows keep `task.rested`, `task.given_back` and `params.asked`, and are mapped when they are read.
-- Nothing changes in the tables; the new version number ends processes of older versions, which cannot read the new names.
SELECT 1;
