"""Read and check task records and flows."""
