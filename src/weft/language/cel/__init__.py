"""Conditions in a subset of CEL (Common Expression Language), and placeholders in texts."""

from weft.language.cel.compiler import CompiledCondition, parse_condition
from weft.language.cel.errors import ConditionError
from weft.language.cel.placeholders import expression_text, parse_path, parse_text

__all__ = [
    "CompiledCondition",
    "ConditionError",
    "expression_text",
    "parse_condition",
    "parse_path",
    "parse_text",
]
