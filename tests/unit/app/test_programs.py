"""What is refused of a program and its inputs before anything of it is stored."""

import pytest

import weft
from weft.app.programs import check_program, load_program
from weft.config.settings import Settings
from weft.language.diagnostics import InvalidProgram
from weft.runs.inputs import NothingToRun, UnusedInputs
from weft.testing.scripted_model import ScriptedModel

BARE = """<task><instructions>Write {{x}} in {{style}} words</instructions>
  <inputs><input name="x"/><input name="style">plain</input></inputs></task>"""


def check(text: str, **inputs: object) -> None:
    check_program(load_program(text), inputs, Settings(db="unused"))


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        (BARE, {"x": 1, "style": "strict"}),
        ("(if (> n 1) n 0)", {"n": 3}),
        ("", {}),
        ("(define (f) limit) (f)", {"limit": 1}),
        ('(task :instructions "{{doc.title}}")', {"doc": {"title": "t"}}),
        ("(begin (set! total 1) total)", {"total": 0}),
        ('(script :argv ("cat") :inputs ((text body)))', {"body": "x"}),
    ],
)
def test_inputs_that_the_program_names_are_taken(text: str, inputs: dict[str, object]) -> None:
    check(text, **inputs)


GREET = '(deftask greet ((who string) (n integer 1)) :instructions "Greet {{who}} {{n}} times")'


@pytest.mark.parametrize("call", ["(greet name)", "(greet :who name)", '(greet "Ada" name)'])
def test_an_input_of_another_type_than_its_parameter_is_refused(call: str) -> None:
    with pytest.raises(InvalidProgram, match="wrong-type"):
        check(f"{GREET} {call}", name=2.5)


def test_an_input_that_the_program_changes_is_not_checked_as_an_argument() -> None:
    check(f'{GREET} (define name "Ada") (greet name)', name=2.5)
    check(f'{GREET} (set! name "Ada") (greet name)', name=2.5)


def test_an_input_that_the_program_names_nowhere_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(UnusedInputs, match="'stlye'; did you mean 'style'") as caught:
        check(BARE, x=1, stlye="strict")

    assert caught.value.names == ("stlye",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            f'{GREET} (deftask bye (who) :instructions "{{{{who}}}}")',
            "only defines 'greet', 'bye'",
        ),
        ("(define (f x) x)", "only defines 'f'"),
    ],
)
def test_a_program_that_only_defines_is_refused(text: str, reason: str) -> None:
    with pytest.raises(NothingToRun, match=reason):
        check(text)


def test_a_model_object_is_refused_because_a_run_stores_the_name_of_its_model() -> None:
    model = ScriptedModel(lambda payload: "no")

    with pytest.raises(TypeError, match="model must be the name of a model"):
        weft.run("(+ 1 2)", model=model, db=":memory:")
