"""Which files there are, and what they contain."""
