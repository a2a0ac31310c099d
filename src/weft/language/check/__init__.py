"""Static checks: what is wrong with a program, before it is run."""

from weft.language.check.program import Verdict, check_program, is_bare_call, required_inputs, verdict_on

__all__ = ["Verdict", "check_program", "is_bare_call", "required_inputs", "verdict_on"]
