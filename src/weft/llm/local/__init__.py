"""The embedded models: fetched once, then run in this process, with no network and no key."""
