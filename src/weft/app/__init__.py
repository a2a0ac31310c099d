"""Use cases, and where the parts are put together."""
