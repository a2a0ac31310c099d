"""S-expressions: text to tree and back."""

from weft.language.sexp.program import read_program

__all__ = ["read_program"]
