"""Whatever runs at the same time and ends first: each task sees what the order of the program says."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from weft import build as b
from weft.evaluator.effects import UNLIMITED, BudgetAccount, ModelCall, Step
from weft.evaluator.evaluator import Evaluator
from weft.evaluator.results import TaskResult
from weft.language.ast import Node, Program
from weft.language.sexp import read_program
from weft.language.source import Source
from weft.language.traversal import raise_recursion_limit
from weft.testing.in_memory_effects import InMemoryEffects

with raise_recursion_limit():
    """Raises the limit of recursion now: Hypothesis warns when it changes during a test."""

Talk = Any
"""A number (a task that says it), or a word and talks: `begin`, `parallel`, `sequential`."""

SAYINGS = st.integers(0, 6)
TALKS = st.recursive(
    SAYINGS,
    lambda inner: st.tuples(
        st.sampled_from(["begin", "parallel", "sequential"]), st.lists(inner, min_size=1, max_size=4)
    ),
    max_leaves=12,
)

SAY = '(deftask say (what) :instructions "{{what}}" :history (:use true))'


class Numbered(InMemoryEffects):
    """Answers after as many turns of the loop as the prompt ends with."""

    async def call_model(self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED) -> TaskResult:
        self.steps.append(step)
        for _ in range(int(call.prompt.rpartition("-")[2])):
            await asyncio.sleep(0)
        return TaskResult(call.prompt.upper(), "COMPLETE")


def program_of(talk: Talk, names: list[str]) -> Node:
    """Return the talk as a program, and add to `names` what its tasks say, in the order of the text."""
    if isinstance(talk, int):
        names.append(f"{len(names)}-{talk}")
        return b.call("say", names[-1])
    kind, parts = talk
    forms = [program_of(part, names) for part in parts]
    return {"begin": b.begin, "parallel": b.parallel, "sequential": b.sequential}[kind](*forms)


def told(talk: Talk, names: list[str], before: list[str], seen: dict[str, list[str]]) -> list[str]:
    """Return what the talk adds, and store in `seen` what each of its tasks sees."""
    if isinstance(talk, int):
        name = names.pop(0)
        seen[name] = before
        return [name]
    kind, parts = talk
    added: list[str] = []
    for part in parts:
        added += told(part, names, before if kind == "parallel" else before + added, seen)
    return added


@given(TALKS)
def test_each_task_sees_what_ran_before_it_in_the_order_of_the_program(talk: Talk) -> None:
    names: list[str] = []
    body = program_of(talk, names)
    effects = Numbered()
    definition = read_program(Source("<test>", SAY))
    program = Program((*definition.forms, body, b.call("say", "end-0")))
    seen: dict[str, list[str]] = {}
    seen["end-0"] = told(talk, list(names), [], seen)

    asyncio.run(Evaluator(effects).evaluate(program))

    assert {call.prompt: [turn.prompt for turn in call.conversation] for call in effects.calls} == seen
    assert all(turn.answer == turn.prompt.upper() for call in effects.calls for turn in call.conversation)
