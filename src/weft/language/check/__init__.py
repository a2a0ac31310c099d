"""Static checks of programs."""

from weft.language.check.program import Verdict, check_program, is_bare_call, required_inputs, verdict_on

__all__ = ["Verdict", "check_program", "is_bare_call", "required_inputs", "verdict_on"]
