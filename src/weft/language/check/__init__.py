"""Static checks of programs."""

from weft.language.check.program import (
    CheckResult,
    analyze_program,
    check_program,
    is_bare_call,
    required_inputs,
)

__all__ = ["CheckResult", "analyze_program", "check_program", "is_bare_call", "required_inputs"]
