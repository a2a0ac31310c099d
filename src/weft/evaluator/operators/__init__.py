"""Task operators: what each kind of task does."""

from weft.evaluator.operators.table import OPERATORS

__all__ = ["OPERATORS"]
