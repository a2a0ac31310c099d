"""Child processes: process groups, pipes, and a watchdog that kills them if weft dies."""
