"""Inputs of bare tasks and calls: all of them are there before the first step is paid for."""

from collections.abc import Mapping
from typing import Any

from weft.evaluator.evaluator import Evaluator
from weft.evaluator.functions import BuiltIn
from weft.language.check import is_bare_call, verdict_on
from weft.language.problems import InvalidProgram, LanguageProblem, in_order
from weft.language.tree import Program, TaskCond, TaskNode


def require_inputs(program: Program, evaluator: Evaluator, bindings: Mapping[str, Any]) -> None:
    """Raise InvalidProgram with every input of the program's bare tasks and calls that nothing binds."""
    if not any(isinstance(form, TaskNode | TaskCond) or is_bare_call(form) for form in program.forms):
        return  # most programs: they are not looked at twice
    verdict = verdict_on(program, evaluator.library)
    known = evaluator.global_env
    missing = [
        LanguageProblem(span, "unbound-name", f"the input '{name}' is not given")
        for name, span in {**verdict.inputs, **verdict.misspelt}.items()
        if name not in bindings and (name not in known or isinstance(known[name], BuiltIn))
    ]
    if missing:
        raise InvalidProgram(in_order(missing))
