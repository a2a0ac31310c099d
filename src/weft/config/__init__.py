"""Settings: `weft.toml`, the environment, defaults, and where files are."""
