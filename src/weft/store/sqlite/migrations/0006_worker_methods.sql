-- Which methods a worker knows: a JSON list; NULL: it has not said, and may know any.
ALTER TABLE workers ADD COLUMN methods TEXT;
