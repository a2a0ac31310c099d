"""When scheduled tasks are due."""
