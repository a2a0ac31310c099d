"""Compilers of the pure forms of the language."""
