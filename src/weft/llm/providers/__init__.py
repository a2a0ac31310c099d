"""Models of providers that are reached over HTTP."""
