"""Whatever tasks are made of and are answered: a value, or an error of weft's own, and the same twice."""

import asyncio
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from weft.errors import InternalError, WeftError
from weft.evaluator.budget import EvaluationLimits
from weft.evaluator.effects import ScriptOutcome
from weft.evaluator.evaluator import Evaluator
from weft.evaluator.results import TaskResult
from weft.language.ast import (
    Atomic,
    Condition,
    DirectorEvaluatorLoop,
    FunctionCall,
    Input,
    Literal,
    Node,
    Program,
    Quote,
    Reduce,
    Reference,
    Script,
    Sequential,
    TaskCase,
    TaskCond,
    Template,
    Try,
    Variable,
)
from weft.language.cel import parse_text
from weft.language.source import NOWHERE
from weft.language.task_fields import ContextOverrides, OutputFormat, Parameter
from weft.testing.in_memory_effects import InMemoryEffects

Nodes = st.SearchStrategy[Node]
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

NAMES = ["a", "b", "s", "input", "stdin", "command", "steps", "last_output", "user_query", "director_result"]
names = st.sampled_from(NAMES)
TEXTS = ["x", "{{a}}", "{{b[0]}} {{s}}", "{{f(a)}}", "{{g(a, 1)}}", "{{length}}", "{{none}}", "\0", "{{s}}"]
texts = st.sampled_from(TEXTS).map(lambda raw: parse_text(raw, NOWHERE))
SHAPES = [None, None, "object", "object", "string[]", "number", '{"required":["success"]}', "none.json"]
formats = st.none() | st.builds(
    OutputFormat, type=st.sampled_from(["json", "text"]), schema=st.sampled_from(SHAPES)
)
contexts = st.builds(
    ContextOverrides,
    inherit_context=st.sampled_from([None, "full", "none", "subset"]),
    accumulate_data=st.sampled_from([None, True, False]),
    accumulation_format=st.sampled_from([None, "full_output", "notes_only"]),
) | st.just(ContextOverrides(fresh_context="enabled"))
conditions = st.sampled_from(
    ["true", "output.valid", "size(output) > 0", "evaluation.score > 3", "current_iteration == 2", "1"]
).map(lambda text: Condition(text=text))
values: Nodes = (
    st.sampled_from([None, True, 0, 1.5, "", "echo a", "'", "{{b}}"]).map(lambda value: Literal(value=value))
    | names.map(lambda name: Variable(name=name))
    | st.just(Quote(datum=(1, ("echo", "x"))))
    | st.sampled_from(["length", "f"]).map(lambda name: Variable(name=name))
)


def fields(draw: st.DrawFn, depth: int) -> dict[str, Any]:
    """Draw the fields that every task can have, with tasks inside."""
    inputs = draw(st.lists(names, max_size=2, unique=True))
    return {
        "instructions": draw(texts),
        "description": draw(st.none() | texts),
        "system": draw(st.none() | texts),
        "inputs": tuple(Input(name, draw(st.none() | values | nodes(depth))) for name in inputs),
        "output_slot": draw(st.none() | names),
        "input_source": draw(st.sampled_from([None, None, "s"])),
        "output_format": draw(formats),
        "context": draw(contexts),
        "disable_reparsing": draw(st.booleans()),
        "criteria": draw(st.sampled_from([None, "judge"])),
    }


@st.composite
def nodes(draw: st.DrawFn, depth: int) -> Node:
    """Draw a task of any kind, with others inside."""
    if depth == 0:
        return Atomic(instructions=draw(texts), output_format=draw(formats))
    inner = nodes(depth - 1)
    kind = draw(st.sampled_from(KINDS))
    if kind is TaskCond:
        return TaskCond(
            cases=(TaskCase(draw(conditions), draw(inner)), TaskCase(draw(conditions), draw(inner)))
        )
    if kind is Try:
        return Try(body=draw(inner), name="e", handler=draw(inner))
    if kind is FunctionCall:
        return FunctionCall(func_name=draw(st.sampled_from(["f", "g", "t:x"])), args=(draw(values),))
    own = {name: draw(part) for name, part in parts(kind, inner).items()}
    node: Node = kind(**fields(draw, depth - 1), **own)
    return node


def parts(kind: type[Node], inner: Nodes) -> dict[str, st.SearchStrategy[Any]]:
    """Return strategies for the fields that only this kind of task has."""
    scripts = texts.map(lambda text: Script(argv=(text,)))
    found: dict[type[Node], dict[str, st.SearchStrategy[Any]]] = {
        Script: {"argv": st.lists(texts, max_size=2).map(tuple)},
        Sequential: {
            "steps": st.lists(inner | values, min_size=1, max_size=3).map(tuple),
            "is_parallel": st.booleans(),
        },
        Reduce: {"initial_value": values | inner, "inner_task": inner, "reduction_task": inner},
        DirectorEvaluatorLoop: {
            "director": inner,
            "evaluator": st.none() | inner,
            "script": st.none() | scripts,
            "max_iterations": st.sampled_from([None, 1, 2]),
            "termination_condition": st.none() | conditions,
        },
        Reference: {"ref": st.sampled_from(["f", "g", "none"])},
    }
    return found.get(kind, {})


KINDS: list[Any] = [
    Atomic,
    Script,
    Sequential,
    Reduce,
    DirectorEvaluatorLoop,
    Reference,
    TaskCond,
    Try,
    FunctionCall,
]
SAID = ["x", "{}", '{"success": true}', '{"success": false, "valid": 1}', '["a"]', "1", "```\n{}\n```"]
answers = st.lists(
    st.sampled_from([*SAID, TaskResult("no", "FAILED"), TaskResult("", "CONTINUATION")]),
    min_size=1,
    max_size=5,
)
G = (Parameter("a", "string"), Parameter("b", None, 1))
programs = st.builds(
    lambda f, g, body: Program(
        (
            Template(name="f", parameters=(Parameter("a"),), body=f),
            Template(name="g", parameters=G, body=g, returns="object"),
            body,
        )
    ),
    nodes(1),
    nodes(1),
    nodes(2),
)


@settings(max_examples=examples(200), suppress_health_check=SLOW, deadline=None)
@given(programs, answers)
def test_tasks_give_a_value_or_an_error_of_weft(program: Program, said: list[Any]) -> None:
    assert outcome(program, said) == outcome(program, said)


def outcome(program: Program, said: list[Any]) -> tuple[str, list[Any]]:
    """Return the value or the error, and the requests; a response depends on the key of its step."""

    class ByKey(InMemoryEffects):
        async def call_model(self, step: Any, call: Any, account: Any = None) -> TaskResult:
            self.steps.append(step)
            answer = said[sum(map(ord, step.key)) % len(said)]
            return answer if isinstance(answer, TaskResult) else TaskResult(answer, "COMPLETE")

    effects = ByKey(
        scripts=lambda run: ScriptOutcome("1", "", len(run.argv) % 2), tools={"t:x": lambda value: [value]}
    )
    limits = EvaluationLimits(operations=5_000, calls=200, size=100_000)
    bindings = dict.fromkeys(NAMES, "bound") | {"b": [1], "command": "echo a"}
    try:
        value = asyncio.run(Evaluator(effects, limits=limits).evaluate(program, bindings))
        given = repr(value)
    except WeftError as error:
        if isinstance(error, InternalError):
            raise
        given = str(error)
    return given, [(step.key, msgspec.json.encode(step.request)) for step in effects.steps]
