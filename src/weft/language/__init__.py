"""The language: readers that turn source text into a syntax tree, and static checks. Pure code, no I/O."""
