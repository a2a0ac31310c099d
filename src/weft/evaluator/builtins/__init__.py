"""The built-in functions of the language."""

from weft.evaluator.builtins import arithmetic, comparison, dicts, higher_order, lists, results, strings
from weft.evaluator.builtins.table import BUILT_INS

__all__ = ["BUILT_INS", "arithmetic", "comparison", "dicts", "higher_order", "lists", "results", "strings"]
