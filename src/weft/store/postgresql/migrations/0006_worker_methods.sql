-- Which methods a worker knows; NULL: it has not said, and may know any.
ALTER TABLE workers ADD COLUMN methods text[];
