"""Settings from `weft.toml`, the environment and defaults, and the locations of files."""
