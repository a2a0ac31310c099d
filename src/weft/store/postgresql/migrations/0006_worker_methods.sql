-- The methods that a worker knows; NULL: it may know any.
ALTER TABLE workers ADD COLUMN methods text[];
