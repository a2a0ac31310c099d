"""The pure forms of the language."""

from weft.evaluator.forms.table import FORMS

__all__ = ["FORMS"]
