"""Conditions, and placeholders in texts: one reader of small expressions."""

from weft.language.expressions.condition import ReadCondition, read_condition
from weft.language.expressions.faults import ConditionError
from weft.language.expressions.placeholders import parse_path, parse_text
from weft.language.expressions.printing import expression_text
from weft.language.expressions.values import HasFields

__all__ = [
    "ConditionError",
    "HasFields",
    "ReadCondition",
    "expression_text",
    "parse_path",
    "parse_text",
    "read_condition",
]
