"""Arbitrary valid trees: all kinds of nodes, nasty names and strings, bounded depth."""

from functools import cache
from typing import Any

from hypothesis import strategies as st
from msgspec import UNSET, Struct

from tests.property.strategies import json_values, optional, texts
from weft.language.ast import (
    And,
    Apply,
    Assign,
    Atomic,
    Begin,
    Clause,
    Cond,
    Condition,
    Define,
    DirectorEvaluatorLoop,
    FilePaths,
    FunctionCall,
    GetContext,
    If,
    Input,
    IterativeLoop,
    Lambda,
    Let,
    Literal,
    Loop,
    Node,
    Or,
    Parallel,
    Program,
    Quote,
    Reduce,
    Reference,
    Script,
    Sequential,
    Symbol,
    TaskCase,
    TaskCond,
    Template,
    Text,
    Try,
    Variable,
    WithBudget,
    WithTimeout,
)
from weft.language.builtins import BUILT_IN_NAMES
from weft.language.cel import parse_text
from weft.language.sexp.program import SPECIAL_FORMS
from weft.language.source import NOWHERE
from weft.language.task_fields import (
    ContextAssembly,
    ContextOverrides,
    HistorySettings,
    OutputFormat,
    Parameter,
)
from weft.language.traversal import raise_recursion_limit

with raise_recursion_limit():
    """Raises the limit of recursion now: Hypothesis warns when it changes during a test."""

Nodes = st.SearchStrategy[Any]

NASTY_NAMES = [
    *("if", "let*", "map", "else", "catch", "nil", "true", "1", "-1", "+5", ".5", "1e3", "+", "-", "..."),
    *(":", ":key", "a:b", "fs:read.text", "a.b", "a..b", "a[0]", "[0]", "string[]", "|", "||", "\\", "#"),
    *("#t", "'", '"', "(", ")", ";", ",", "`", "{{x}}", "{}", "\u00e9", "\u540d\u524d", "a b", " ", "\n"),
    *("x\u200by", "\u00a0", "\u2028", "\x00"),
]
names = st.sampled_from([*"abcxyz", "long-name", "snake_case", *NASTY_NAMES]) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8
)
free_names = names.filter(lambda name: name not in BUILT_IN_NAMES and name not in SPECIAL_FORMS)
"""Names that a program may bind."""

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.sampled_from(
        ["a\nb", "long enough to be broken " * 4 + "\n  and kept\r\n", '"\\"', "\\n", "|", "{{x}}"]
    )
)
data = st.recursive(
    scalars | names.map(Symbol), lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=6
)
filled_texts: st.SearchStrategy[Text] = st.lists(
    texts.filter(lambda text: "{" not in text)
    | st.sampled_from(
        [
            "{{name}}",
            "{{ answer.items[0] }}",
            '{{f(a, "b", n=3, flag=true)}}',
            '{{"{{"}}',
            "{%",
            "{",
            "\n",
            '"',
        ]
    ),
    max_size=4,
).map(lambda parts: parse_text(" ".join(parts), NOWHERE))
plain_texts = texts.filter(lambda text: "{" not in text).map(lambda text: parse_text(text, NOWHERE))
conditions = st.sampled_from(
    [
        "output.valid == true",
        "output.errors > 0",
        'has(output.x) && output.x in ["a", "\\""]',
        "size(items)>3 ? true : false",
    ]
).map(lambda text: Condition(text=text))
shapes = st.sampled_from(["object", "string[]", "[]", "schemas/a.json", '{"a":1,"type":"object"}'])


def tuples(strategy: st.SearchStrategy[Any], *, least: int = 0, most: int = 3) -> st.SearchStrategy[Any]:
    return st.lists(strategy, min_size=least, max_size=most).map(tuple)


def named(
    keys: st.SearchStrategy[str], values: st.SearchStrategy[Any], *, least: int = 0
) -> st.SearchStrategy[Any]:
    """Pairs, no key twice."""
    return st.lists(st.tuples(keys, values), min_size=least, max_size=3, unique_by=lambda one: one[0]).map(
        tuple
    )


def unique(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(strategy, max_size=3, unique_by=lambda one: getattr(one, "name", one)).map(tuple)


@st.composite
def trees(draw: st.DrawFn, depth: int = 3) -> Node:
    """Expressions and tasks, nested so deep at most."""
    node: Node = draw(_trees(depth))
    return node


@st.composite
def bodies(draw: st.DrawFn, depth: int) -> Node:
    """Draw a body: one expression or definition, or several."""
    one = trees(depth) | definitions(depth)
    node: Node = draw(one | st.builds(Begin, items=tuples(one)))
    return node


@cache
def _trees(depth: int) -> Nodes:
    leaves = (
        st.builds(Literal, value=scalars)
        | st.builds(Quote, datum=data)
        | st.builds(Variable, name=names, path=tuples(names | texts | st.integers(-(10**9), 10**9)))
        | filled_texts
        | conditions
    )
    if depth == 0:
        return leaves
    return st.one_of(leaves, expressions(depth - 1), tasks(depth - 1))


@cache
def definitions(depth: int) -> Nodes:
    inner = bodies(depth - 1) if depth else trees(0)
    named_closures = free_names.flatmap(
        lambda name: st.builds(
            Define, name=st.just(name), value=lambdas(inner).map(lambda closure: _with_name(closure, name))
        )
    )
    parameters = st.builds(
        Parameter, name=free_names, type=optional(shapes | names), default=st.just(UNSET) | json_values
    )
    templates = st.builds(
        Template, name=free_names, parameters=unique(parameters), body=inner, returns=optional(shapes)
    )
    return st.builds(Define, name=free_names, value=trees(depth)) | named_closures | templates


def _with_name(closure: Lambda, name: str) -> Lambda:
    return Lambda(parameters=closure.parameters, body=closure.body, name=name)


def lambdas(body: Nodes) -> Nodes:
    return st.builds(Lambda, parameters=unique(free_names), body=body, name=st.none())


@cache
def expressions(depth: int) -> Nodes:
    inner, body = trees(depth), bodies(depth)
    called = inner.filter(lambda node: not isinstance(node, Literal | Variable))
    several = tuples(inner)
    keywords = named(names, inner)
    pairs = st.tuples(free_names, inner)
    return st.one_of(
        st.builds(If, test=inner, then=inner, otherwise=optional(inner)),
        st.builds(Cond, clauses=tuples(st.builds(Clause, inner, optional(body))), otherwise=optional(body)),
        st.builds(And, items=several),
        st.builds(Or, items=several),
        st.builds(Parallel, items=several),
        st.builds(Let, bindings=named(free_names, inner), body=body, is_sequential=st.just(False)),
        st.builds(Let, bindings=tuples(pairs), body=body, is_sequential=st.just(True)),
        st.builds(Assign, name=free_names, value=inner),
        lambdas(body),
        st.builds(Begin, items=tuples(body)),
        st.builds(FunctionCall, func_name=names, args=several, keywords=keywords),
        st.builds(Apply, function=called, args=several, keywords=keywords),
        st.builds(Try, body=inner, name=free_names, handler=body),
        st.builds(Loop, count=inner, body=inner),
        st.builds(
            IterativeLoop,
            max_iterations=inner,
            initial=inner,
            executor=inner,
            validator=optional(inner),
            controller=inner,
        ),
        st.builds(WithTimeout, seconds=inner, body=body),
        st.builds(
            WithBudget,
            limits=named(st.sampled_from(["steps", "calls", "tokens", "cost"]), inner, least=1),
            body=body,
        ),
        st.builds(
            GetContext,
            keywords=named(st.sampled_from(["query", "inputs", "strategy", "inherited", "previous"]), inner),
        ),
    )


contexts = st.builds(
    ContextOverrides,
    inherit_context=st.sampled_from([None, "full", "none", "subset"]),
    accumulate_data=optional(st.booleans()),
    accumulation_format=st.sampled_from([None, "full_output", "notes_only"]),
    fresh_context=st.sampled_from([None, "enabled", "disabled"]),
).filter(lambda one: one.fresh_context != "enabled" or one.inherit_context in {None, "none"})
file_paths = tuples(filled_texts).flatmap(
    lambda paths: st.sampled_from(
        [FilePaths(paths=paths), FilePaths(paths=paths, optional=tuple(range(len(paths))[-1:]))]
    )
) | filled_texts.flatmap(
    lambda text: st.sampled_from(
        [
            FilePaths("command", text=text),
            FilePaths("description", text=text),
            FilePaths("context_description", text=text),
        ]
    )
)


def task_fields(depth: int) -> dict[str, Nodes]:
    """Return a strategy for every field that all kinds of task have."""
    counts = st.integers(1, 10**6)
    return {
        "subtype": optional(texts),
        "description": optional(filled_texts),
        "instructions": optional(filled_texts),
        "system": optional(filled_texts),
        "model": optional(texts),
        "provider": optional(texts),
        "criteria": optional(texts),
        "inputs": unique(st.builds(Input, name=names, value=optional(trees(depth)))),
        "output_slot": optional(names),
        "input_source": optional(names),
        "output_format": optional(
            st.builds(OutputFormat, type=st.sampled_from(["json", "text"]), schema=optional(shapes))
        ),
        "context": contexts,
        "context_relevance": named(names, st.booleans()),
        "context_assembly": optional(
            st.builds(ContextAssembly, optional(texts), optional(texts), optional(texts))
        ),
        "file_paths": optional(file_paths),
        "history": optional(st.builds(HistorySettings, st.booleans(), optional(counts), st.booleans())),
        "tools": tuples(texts),
        "timeout_seconds": optional(st.floats(0, exclude_min=True, allow_infinity=False)),
        "max_depth": optional(counts),
        "reuse": optional(st.booleans()),
        "manual_xml": st.booleans(),
        "disable_reparsing": st.booleans(),
    }


@cache
def tasks(depth: int) -> Nodes:
    inner, fields = trees(depth), task_fields(depth)
    scripts = st.one_of(
        st.builds(Script, **fields, argv=tuples(filled_texts)), st.builds(Script, **fields, shell=plain_texts)
    )
    case = st.builds(TaskCase, test=conditions, body=bodies(depth))
    return st.one_of(
        st.builds(Atomic, **{**fields, "instructions": filled_texts}),
        scripts,
        st.builds(Sequential, **fields, steps=tuples(inner, least=1), is_parallel=st.booleans()),
        st.builds(Reduce, **fields, initial_value=optional(inner), inner_task=inner, reduction_task=inner),
        st.builds(
            DirectorEvaluatorLoop,
            **fields,
            max_iterations=optional(st.integers(1, 10**6)),
            director=inner,
            evaluator=inner,
            script=optional(scripts),
            termination_condition=optional(conditions),
        ),
        st.builds(Reference, **fields, ref=texts),
        st.builds(TaskCond, cases=tuples(case, least=1)),
    )


programs = st.builds(Program, forms=tuples(bodies(2)))


def exactly(tree: Any) -> Any:
    """Convert a tree to plain values that differ where `==` does not: 1, 1.0, true; symbols, strings."""
    if isinstance(tree, Struct):
        fields = {name: exactly(getattr(tree, name)) for name in tree.__struct_fields__ if name != "span"}
        return type(tree).__name__, fields
    if isinstance(tree, tuple | list):
        return [exactly(one) for one in tree]
    if isinstance(tree, dict):
        return {name: exactly(value) for name, value in tree.items()}
    return type(tree).__name__, repr(tree)
