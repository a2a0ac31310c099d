"""Output of commands: text, tables, JSON, progress and questions."""
