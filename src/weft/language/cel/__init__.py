"""Conditions in a subset of CEL (Common Expression Language), and placeholders in texts."""

from weft.language.cel.condition import ReadCondition, read_condition
from weft.language.cel.errors import ConditionError
from weft.language.cel.placeholders import expression_text, parse_path, parse_text
from weft.language.cel.values import HasFields

__all__ = [
    "ConditionError",
    "HasFields",
    "ReadCondition",
    "expression_text",
    "parse_path",
    "parse_text",
    "read_condition",
]
