-- The methods that a worker knows, as a JSON list; NULL: it may know any.
ALTER TABLE workers ADD COLUMN methods TEXT;
