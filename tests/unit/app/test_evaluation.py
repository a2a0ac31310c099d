"""`weft.evaluate`."""

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.given_tools import GivenTool, GivenTools
from tests.model_server import ModelServer
from weft import build as b
from weft.effects.local import LocalEffects
from weft.evaluator.errors import TaskFailed
from weft.language.diagnostics import InvalidProgram
from weft.language.library import definition_of
from weft.llm.protocol import Features
from weft.testing.scripted_model import ScriptedModel, tool_use


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


def test_a_model_and_tools_of_ones_own() -> None:
    model = ScriptedModel([tool_use("math:double", n=21), "42"])
    tools = GivenTools(GivenTool("math:double", lambda n: 2 * n))
    program = '(task :instructions "twice {{n}}" :tools ("math:double"))'

    assert weft.evaluate(program, model=model, tools=tools, n=21).content == "42"
    assert model.payloads[1].messages[-1].content == "42"
    assert tools.is_closed
    with pytest.raises(InvalidProgram, match="give either `effects` or `model` and `tools`"):
        weft.evaluate("1", effects=weft.InMemoryEffects(), model=model)


def test_a_budget_of_tokens_bounds_an_evaluation() -> None:
    model = ScriptedModel(lambda payload: "ok", features=Features(max_output_tokens=100))

    with pytest.raises(TaskFailed, match=r"does not fit the budget: .* most was spent by greet"):
        weft.evaluate(
            [greet, b.loop(50, greet("Ada"))], model=model, limits=weft.EvaluationLimits(tokens=200)
        )
    assert 1 < len(model.payloads) < 50


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


def test_inputs_that_are_not_given_are_told_before_the_first_step() -> None:
    steps = (
        '(sequential (task :instructions "{{a}}" :output-slot plan) (task :instructions "{{plna}} {{b}}"))'
    )
    effects = weft.InMemoryEffects(lambda call: "done")

    with pytest.raises(InvalidProgram) as caught:
        weft.evaluate(steps, effects=effects)

    a, plna, b = [problem.message for problem in caught.value.found]
    assert (a, b) == ("the input 'a' is not given", "the input 'b' is not given")
    assert plna.startswith("'plna' is not bound; did you mean 'plan'?")
    assert effects.calls == []
    assert weft.evaluate(steps, effects=effects, a=1, b=2, plna=3).content == "done"
    assert weft.evaluate(f"(define a 1) (define b 2) (define plna 3) {steps}", effects=effects)


def test_inputs_of_a_call_that_are_not_given_are_told_before_the_first_step() -> None:
    calls = '(deftask ask (x) :instructions "{{x}}") (ask "first") (ask question)'
    effects = weft.InMemoryEffects(lambda call: "done")

    with pytest.raises(InvalidProgram, match="the input 'question' is not given"):
        weft.evaluate(calls, effects=effects)

    assert effects.calls == []
    assert weft.evaluate(calls, effects=effects, question="why").content == "done"


@pytest.mark.parametrize(
    "program",
    [
        '(deftask r (code) :instructions "{{code}}") (r car)',
        '(task :instructions "{{f}}" :inputs ((f car)))',
    ],
)
def test_a_built_in_is_not_called_unbound(program: str) -> None:
    with pytest.raises(InvalidProgram, match="is a function, which cannot leave the program"):
        weft.evaluate(program)


SAYS_FIRST = '(deftask say (x) :instructions "{{x}}") (say "first") '


@pytest.mark.parametrize(
    ("rest", "problem"),
    [
        ("(nosuch 1)", "unbound-name"),
        ('(+ 1 "a")', "wrong-type"),
        ("(say)", "wrong-arity"),
        ('(task :instructions "x" :tools ("no:tool"))', "unknown-tool"),
        ("(no:tool)", "unknown-tool"),
        ('(task :instructions "x" :schema "shapes/missing.json")', "cannot be read"),
        ("(helper)", "unbound-name"),
    ],
)
def test_a_program_that_is_wrong_anywhere_has_no_effect(rest: str, problem: str) -> None:
    library = weft.TaskLibrary()
    library.register_task(definition_of(b.template("helper", [], b.call("nosuch"))))
    effects = weft.InMemoryEffects(lambda call: "done", tools={"my:tool": lambda: 1})

    with pytest.raises(InvalidProgram, match=problem):
        weft.evaluate(SAYS_FIRST + rest, effects=effects, library=library)

    assert effects.calls == []
    assert weft.evaluate(SAYS_FIRST + "(my:tool)", effects=effects, library=library) == 1


def test_a_model_that_is_not_known_is_told_before_the_first_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    touch = f'(script :argv ("touch" "{tmp_path}/touched"))'

    with pytest.raises(InvalidProgram, match="unknown-model"):
        weft.evaluate(f'{touch} (task :instructions "x" :model "nosuch:model")')

    assert not (tmp_path / "touched").exists()
    assert weft.evaluate(f'{touch} (task :instructions "x" :model "a:b")', model=ScriptedModel(["ok"]))


def test_a_program_without_effects_is_evaluated_and_its_mistakes_can_be_caught() -> None:
    assert weft.evaluate('(try (+ 1 "a") (catch e "caught"))') == "caught"


async def test_inside_of_a_running_loop_it_works_as_in_a_notebook() -> None:
    assert weft.evaluate("(+ 1 1)") == 2
    assert await weft.evaluate_async("(+ 1 1)") == 2


def test_limits() -> None:
    with pytest.raises(TaskFailed, match="more than 100 steps"):
        weft.evaluate("(define (f) (f)) (f)", limits=weft.EvaluationLimits(operations=100))
    with pytest.raises(TaskFailed, match=r"timed out after 0\.05 seconds"):
        weft.evaluate(b.script(argv=["sleep", "600"]), limits=weft.EvaluationLimits(seconds=0.05))


def test_concurrent_evaluations() -> None:
    async def both() -> list[int]:
        return list(await asyncio.gather(weft.evaluate_async("(+ 1 1)"), weft.evaluate_async("(+ 2 2)")))

    assert asyncio.run(both()) == [2, 4]


def test_public_names_are_listed_for_completion() -> None:
    assert {*weft.__all__, "__version__"} <= set(dir(weft))


@pytest.mark.parametrize("is_shared", [True, False])
def test_evaluations_in_many_threads(
    is_shared: bool, model_server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = 8
    (tmp_path / "weft.toml").write_text(
        f'[models.providers.x]\nbase_url = "{model_server.base_url}"\nretries = 0\n'
    )
    monkeypatch.chdir(tmp_path)
    effects = LocalEffects(model="x:y")

    def answer(number: int) -> str:
        chosen: dict[str, Any] = {"effects": effects} if is_shared else {"model": "x:y"}
        program = '(deftask t (n) :instructions "{{n}}") (begin ' + "(t n)" * (number + 1) + ")"
        return str(weft.evaluate(program, n=number, **chosen).content)  # the first ends long before the last

    with ThreadPoolExecutor(together) as threads:
        assert list(threads.map(answer, range(together))) == ["hello"] * together
    assert len(model_server.requests) == sum(range(1, together + 1))


def test_a_value_that_the_prompt_shows_is_sent_once() -> None:
    model = ScriptedModel(lambda _: "ok")

    weft.evaluate('(map (lambda (n) (task :instructions "n {{n}}")) (list "LONG"))', model=model)

    assert (model.prompts, model.payloads[0].context) == (["n LONG"], None)


@pytest.mark.parametrize(
    "program",
    [
        '(let ((pw tok)) (task :instructions "Say hi"))',
        '(let ((headers (dict :auth (string-append "Bearer " tok)))) (task :instructions "Say hi"))',
        '(deftask f (pw) :instructions "Say hi") (f tok)',
        """(sequential :context (:accumulate true :format "full_output")
             (script :argv ("printenv" "PW") :inputs ((PW tok))) (task :instructions "Say hi"))""",
    ],
)
def test_a_secret_is_sent_to_a_model_only_by_a_placeholder_that_names_it(program: str) -> None:
    model = ScriptedModel(lambda _: "ok")
    token = weft.Secret("hunter2-the-second", "TOK")

    weft.evaluate(program, model=model, tok=token)
    weft.evaluate('(task :instructions "Use {{tok}}")', model=model, tok=token)

    assert "hunter2" not in str(model.payloads[0])
    assert model.prompts[1] == "Use hunter2-the-second"


def test_importing_weft_imports_nothing_but_its_version() -> None:
    code = "import sys, weft; print(sorted(name for name in sys.modules if name.startswith('weft')))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "['weft', 'weft.version']\n"
