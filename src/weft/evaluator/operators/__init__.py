"""Task operators: what each kind of task does."""
