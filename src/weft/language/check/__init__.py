"""Static checks: what is wrong with a program, before it is run."""

from weft.language.check.program import check_program, required_inputs

__all__ = ["check_program", "required_inputs"]
