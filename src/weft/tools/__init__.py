"""Tools: what a program calls by name, and a model if its template lists it."""
