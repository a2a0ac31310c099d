"""Text to syntax tree, and what can be said about a program without running it. Pure."""
