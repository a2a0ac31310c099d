"""`weft.evaluate`."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from weft import build as b
from weft.evaluator.errors import TaskFailed
from weft.language.problems import InvalidProgram


@weft.task
def greet(name: str) -> str:
    """Say hello to {{name}}."""
    raise NotImplementedError


def test_any_form_of_a_program(tmp_path: Path) -> None:
    (tmp_path / "a.sexp").write_text("(+ x 1)")

    assert weft.evaluate("(+ x 1)", x=1) == 2
    assert weft.evaluate(tmp_path / "a.sexp", x=1) == 2
    assert weft.evaluate(b.call("+", b.var("x"), 1), x=1) == 2
    assert weft.evaluate(b.program(b.define("x", 1), b.call("+", b.var("x"), 1))) == 2
    assert weft.evaluate("<task type='script'><command>echo hi</command></task>").content == "hi\n"


def test_task_functions_with_their_calls() -> None:
    effects = weft.InMemoryEffects({"greet": "Hello!"})

    result = weft.evaluate([greet, greet("Ada")], effects=effects)

    assert result.content == "Hello!"
    assert effects.calls[0].prompt == "Say hello to Ada."


def test_what_a_program_defines_does_not_stay_in_the_library() -> None:
    library = weft.TaskLibrary()
    library.register_task(greet.definition)

    for _ in range(2):
        assert weft.evaluate("(template f () 1) (f)", library=library) == 1

    assert [one.name for one in library] == ["greet"]


def test_mistakes_are_errors_with_a_place() -> None:
    with pytest.raises(InvalidProgram, match="<text>:1:1: syntax-error"):
        weft.evaluate("(+ 1")
    with pytest.raises(TaskFailed, match="<text>:1:1: unbound-name"):
        weft.evaluate("(f)")
    with pytest.raises(InvalidProgram, match="reserved-name"):
        weft.evaluate("1", taskLibrary=1)


async def test_inside_of_a_running_loop_it_works_as_in_a_notebook() -> None:
    assert weft.evaluate("(+ 1 1)") == 2
    assert await weft.evaluate_async("(+ 1 1)") == 2


def test_limits() -> None:
    with pytest.raises(TaskFailed, match="more than 100 steps"):
        weft.evaluate("(define (f) (f)) (f)", limits=weft.EvaluationLimits(steps=100))
    with pytest.raises(TaskFailed, match=r"not done after 0\.05 seconds"):
        weft.evaluate(b.script(argv=["sleep", "600"]), limits=weft.EvaluationLimits(seconds=0.05))


def test_concurrent_evaluations() -> None:
    async def both() -> list[int]:
        return list(await asyncio.gather(weft.evaluate_async("(+ 1 1)"), weft.evaluate_async("(+ 2 2)")))

    assert asyncio.run(both()) == [2, 4]


def test_importing_weft_imports_nothing_of_it() -> None:
    code = "import sys, weft; print(sorted(name for name in sys.modules if name.startswith('weft')))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "['weft']\n"
