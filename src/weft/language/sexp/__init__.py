"""Reader and printer of programs in S-expressions."""

from weft.language.sexp.printer import print_node, print_program
from weft.language.sexp.program import read_program

__all__ = ["print_node", "print_program", "read_program"]
