"""Models of remote providers, used over HTTP."""
