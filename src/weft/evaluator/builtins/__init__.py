"""The built-in functions of the language."""

from weft.evaluator.builtins import arithmetic, collections, higher_order, texts
from weft.evaluator.builtins.table import BUILT_INS

__all__ = ["BUILT_INS", "arithmetic", "collections", "higher_order", "texts"]
