"""The embedded models: fetched once, then run on this machine, with no network and no key."""
