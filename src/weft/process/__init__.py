"""Child processes: their group, their pipes, and what ends them with weft."""
