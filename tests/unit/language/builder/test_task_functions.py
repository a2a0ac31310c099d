"""`@weft.task`: a function's signature is the parameters, its docstring the prompt."""

from dataclasses import dataclass
from typing import Any

import pytest

import weft
from tests.batches import batched
from weft import build as b
from weft.evaluator.errors import TaskFailed
from weft.language.ast import FunctionCall, Node, Program, Template
from weft.language.diagnostics import InvalidProgram
from weft.language.sexp import print_program, read_program
from weft.language.source import Source


@weft.task(model="local:auto", system="You review.")
def review(code: str, style: str = "plain", depth: int = 3, *, extra: Any = None) -> dict[str, Any]:
    """Review {{code}} in style {{style}},
    {{depth}} deep.
    """
    raise NotImplementedError


def read(text: str) -> tuple[Node, ...]:
    return read_program(Source("<test>", text)).forms


def test_a_function_is_the_template_that_its_text_reads_to() -> None:
    (template,) = read(
        r"""(deftask review ((code string) (style string "plain") (depth integer 3) (extra nil))
          :returns "object" :instructions "Review {{code}} in style {{style}},\n{{depth}} deep."
          :model "local:auto" :system "You review." :output "json" :schema "object")"""
    )

    assert review.template == template


def test_a_call_is_the_node_of_a_call() -> None:
    assert review(b.var("x"), style="strict") == FunctionCall(
        func_name="review", args=(b.var("x"),), keywords=(("style", b.node("strict")),)
    )


def test_the_function_itself_is_its_name() -> None:
    assert b.map_(review, ["a"]) == b.call("map", b.var("review"), ["a"])


def test_a_body_that_gives_a_node_is_the_template_and_may_use_what_comes_later() -> None:
    @weft.task
    def twice(text: str) -> str:
        """Documentation."""
        return b.sequential(once(text), once(text))  # type: ignore[return-value]  # a node, which gives a string

    @weft.task
    def once(text: str) -> str:
        """Do {{text}}."""
        raise NotImplementedError

    assert Program((twice.template, once.template)) == Program(
        read(
            """(template twice ((text string)) :returns "string" (sequential (once text) (once text)))
               (deftask once ((text string)) :returns "string" :instructions "Do {{text}}.")"""
        )
    )


@dataclass
class Finding:
    line: int
    note: str


@batched(
    ("annotation", "shape"),
    [
        (str, "string"),
        (int, "integer"),
        (float, "number"),
        (bool, "boolean"),
        (dict, "object"),
        (dict[str, Any], "object"),
        (list, "array"),
        (list[str], "string[]"),
        (list[float], "number[]"),
        (list[bool], "boolean[]"),
        (list[dict[str, Any]], "object[]"),
        (Any, None),
        (None, None),
        (list[int], '{"type":"array","items":{"type":"integer"}}'),
        (int | None, '{"anyOf":[{"type":"integer"},{"type":"null"}]}'),
    ],
)
def test_types_are_shapes(annotation: Any, shape: str | None) -> None:
    assert b.parameter("x", annotation).type == shape


def test_a_dataclass_is_held_to_its_fields() -> None:
    @weft.task
    def find(code: str) -> list[Finding]:
        """Find what is wrong with {{code}}."""
        raise NotImplementedError

    good = weft.InMemoryEffects([[{"line": 3, "note": "x"}]])
    result = weft.evaluate([find, find("c")], effects=good)

    assert result.parsed_content == [{"line": 3, "note": "x"}]
    with pytest.raises(TaskFailed, match="does not match its format"):
        weft.evaluate([find, find("c")], effects=weft.InMemoryEffects([[{"line": "3"}]] * 2))


def test_a_library_keeps_it() -> None:
    library = weft.TaskLibrary()
    library.register_task(review.definition)

    assert library.get_task("review").metadata["parameters"] == ["code", "style", "depth", "extra"]
    result = weft.evaluate(review("x"), library=library, effects=weft.InMemoryEffects([{"ok": True}]))
    assert result.value == {"ok": True}


def test_a_program_of_functions_prints_and_reads_back() -> None:
    program = b.program(review, review("x"))

    assert read_program(Source("<test>", print_program(program))) == program


def test_a_name_and_a_return_type_may_be_said() -> None:
    @weft.task(name="look-up", returns="string[]", output="json")
    def look_up(word):  # type: ignore[no-untyped-def]
        """Find {{word}}."""

    (template,) = read(
        '(deftask look-up (word) :returns "string[]" :instructions "Find {{word}}." :output "json")'
    )
    assert look_up.template == template
    assert look_up(1).func_name == "look-up"


def takes_any_number(*x: str) -> None:
    """x"""


def has_bad_default(x: Any = object()) -> None:  # noqa: B008
    """x"""


def has_unknown_type(x: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821
    """x"""


def has_broken_prompt(x: str) -> None:
    """{{x"""


def gives_a_string(x: str) -> str:
    """x"""
    return "x"


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (takes_any_number, "bad-value"),
        (has_bad_default, "bad-value"),
        (has_unknown_type, "bad-value"),
        (has_broken_prompt, "syntax-error"),
        (gives_a_string, "wrong-type"),
    ],
)
def test_a_mistake_is_told_with_the_file_of_the_function(function: Any, code: str) -> None:
    def template() -> Template:
        return weft.task(function).template

    with pytest.raises(InvalidProgram) as caught:
        template()

    (problem,) = caught.value.found
    assert problem.code == code
    assert str(problem.span).startswith(f"{__file__}:")


def test_options_of_a_function_with_a_body_of_its_own_are_refused() -> None:
    @weft.task(model="x")
    def composed(a: str) -> Any:
        return b.task("{{a}}")

    with pytest.raises(InvalidProgram, match="model has no effect"):
        _ = composed.template


def test_a_function_that_waits_is_refused() -> None:
    async def look(code: str) -> str:
        """Look at {{code}}."""
        raise NotImplementedError

    with pytest.raises(InvalidProgram, match="not async def"):
        weft.task(look)


def test_a_function_with_the_name_of_a_built_in_is_refused() -> None:
    with pytest.raises(InvalidProgram, match="reserved-name"):
        weft.task(name="map")(lambda code: None)
