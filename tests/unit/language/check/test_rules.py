"""Rules between the fields of a task: the same problem in each syntax, told by the check, not by a reader."""

from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.batches import batched
from tests.evaluation import an_evaluator
from weft import build
from weft.language.ast import Atomic, DirectorEvaluatorLoop, Literal, Program, TaskNode
from weft.language.check import check_program
from weft.language.check.rules import task_problems
from weft.language.diagnostics import InvalidProgram
from weft.language.reading import read_text
from weft.language.task_fields import ContextOverrides

b: Any = build
D = "<description>d</description>"
LOOP = f"<director>{D}</director><evaluator>{D}</evaluator>"
INPUTS = '<inputs><input name="x">a</input></inputs>'
ASK = '(task :description "d")'

PROMPT = "an atomic task needs instructions or a description: the prompt for the model"
STEP = "a sequential task needs at least one step"
PARTS = "a reduce task needs an inner_task and a reduction_task"
DIRECTOR = "a director_evaluator_loop needs a director"
EVALUATOR = "a director_evaluator_loop needs an evaluator, or criteria to find one by"
COMMAND = "a script needs a command: argv, shell, or an input named 'command'"
SHELL = "a placeholder in shell would be part of a command line"
IN_SHELL = "a placeholder in the command of a shell would be part of a command line"

Row = tuple[str, str, str | None, str | None, Callable[[], Any] | None]

RULES: list[Row] = [
    ("missing-field", PROMPT, "(task)", "<task/>", b.task),
    ("missing-field", PROMPT, '(task :system "s")', "<task><system>s</system></task>", None),
    ("missing-field", PROMPT, "(deftask t ())", "<task><description> </description></task>", None),
    ("missing-field", STEP, "(sequential)", '<task type="sequential"/>', b.sequential),
    (
        "missing-field",
        STEP,
        "(sequential :parallel true)",
        '<task type="sequential"><steps/></task>',
        lambda: b.sequential(parallel=True),
    ),
    (
        "missing-field",
        PARTS,
        f"(reduce-task :inner {ASK})",
        f'<task type="reduce"><reduction_task>{D}</reduction_task></task>',
        None,
    ),
    (
        "missing-field",
        DIRECTOR,
        f"(director-evaluator-loop :evaluator {ASK})",
        f"<director_evaluator_loop><evaluator>{D}</evaluator></director_evaluator_loop>",
        None,
    ),
    (
        "missing-field",
        EVALUATOR,
        f"(director-evaluator-loop :director {ASK})",
        f"<director_evaluator_loop><director>{D}</director></director_evaluator_loop>",
        lambda: b.director_evaluator_loop(director=b.task("d")),
    ),
    ("missing-field", COMMAND, "(script)", '<task type="script"/>', b.script),
    (
        "missing-field",
        COMMAND,
        f"(director-evaluator-loop :director {ASK} :evaluator {ASK} :script (script))",
        f"<director_evaluator_loop>{LOOP}<script_execution/></director_evaluator_loop>",
        lambda: b.director_evaluator_loop(director=b.task("d"), evaluator=b.task("e"), script=b.script()),
    ),
    ("missing-field", "a cond of tasks needs at least one case", None, "<cond/>", b.task_cond),
    (
        "bad-value",
        "max_iterations must be a whole number, at least 1",
        None,
        None,
        lambda: b.director_evaluator_loop(director=b.task("d"), evaluator=b.task("e"), max_iterations=0),
    ),
    (
        "bad-value",
        SHELL,
        '(script :shell "ls {{x}}" :inputs ((x "a")))',
        f'<task type="script"><command shell="true">ls {{{{x}}}}</command>{INPUTS}</task>',
        lambda: b.script(shell="ls {{x}}", inputs={"x": "a"}),  # noqa: S604
    ),
    (
        "bad-value",
        IN_SHELL,
        '(script :argv ("sh" "-c" "ls {{x}}") :inputs ((x "a")))',
        f'<task type="script"><command>/bin/bash -euc "ls {{{{x}}}}"</command>{INPUTS}</task>',
        lambda: b.script(argv=["bash", "-l", "-c", "ls {{x}}"], inputs={"x": "a"}),
    ),
    (
        "bad-value",
        "a script has argv or shell, not both",
        '(script :argv ("a") :shell "b")',
        None,
        lambda: b.script(argv=["a"], shell="b"),  # noqa: S604
    ),
    (
        "bad-value",
        "the command of file_paths cannot have placeholders",
        '(task :instructions "i" :inputs ((x "a")) :files (:command "ls {{x}}"))',
        f'<task>{D}{INPUTS}<file_paths source="command"><command>ls {{{{x}}}}</command></file_paths></task>',
        lambda: b.task("i", inputs={"x": "a"}, files={"command": "ls {{x}}"}),
    ),
    (
        "bad-value",
        "tools is for atomic tasks, and this is a sequential task; write it on the tasks inside",
        f'(sequential :tools ("a:b") {ASK})',
        f'<task type="sequential"><tools>a:b</tools><steps><task>{D}</task></steps></task>',
        lambda: b.sequential(b.task("d"), tools=["a:b"]),
    ),
    (
        "duplicate-name",
        "the parameter 'a' occurs 2 times",
        None,
        None,
        lambda: b.template("f", ["a", "a"], b.call("list", b.var("a"))),
    ),
]


def problems(program: Program) -> list[tuple[str, str]]:
    return [(one.code, one.message) for one in check_program(program) if one.code != "unused-parameter"]


@batched(("code", "message", "sexp", "xml", "make"), RULES, ids=range(len(RULES)))
def test_a_rule_is_told_in_the_same_words_in_each_syntax(
    code: str, message: str, sexp: str | None, xml: str | None, make: Callable[[], Any] | None
) -> None:
    programs = [read_text(text, "t") for text in (sexp, xml) if text is not None]
    programs += [build.program(make())] if make is not None else []
    for program in programs:
        (found,) = problems(program)
        assert found[0] == code
        assert found[1].startswith(message)


def test_a_word_that_no_shell_runs_may_have_placeholders() -> None:
    for argv in (
        '"sh" "-c" "ls \\"$1\\"" "sh" "{{x}}"',
        '"sh" "run.sh" "-c" "{{x}}"',
        '"python3" "-c" "{{x}}"',
    ):
        program = read_text(f'(script :argv ({argv}) :inputs ((x "a")))', "t")
        assert problems(program) == []


def test_a_problem_of_a_task_is_at_its_place() -> None:
    (found,) = check_program(read_text('<program>\n  <task type="sequential"/></program>', "t.xml"))
    assert str(found.span) == "t.xml:2:3"
    (found,) = check_program(read_text('(+ 1\n  2)\n\n(script :argv ("sh" "-c" "ls {{x}}"))', "t"))
    assert str(found.span) == "t:4:27"


@pytest.mark.parametrize(
    "node",
    [
        Atomic(),
        Atomic(
            instructions=build.text("i"),
            context=ContextOverrides(inherit_context="full", fresh_context="enabled"),
        ),
        DirectorEvaluatorLoop(director=Literal(value=1), evaluator=Literal(value=1), max_iterations=0),
    ],
)
async def test_the_evaluator_refuses_what_the_check_would(node: TaskNode) -> None:
    (problem,) = task_problems(node)
    with pytest.raises(InvalidProgram) as caught:
        await an_evaluator().evaluate(Program((node,)))
    assert [str(one) for one in caught.value.found] == [str(problem)]


def test_a_function_without_a_prompt_is_told_at_its_line() -> None:
    @weft.task
    def has_no_prompt(x: str) -> None: ...

    with pytest.raises(InvalidProgram, match=r"test_rules\.py:\d+: missing-field: an atomic task needs"):
        weft.evaluate([has_no_prompt, has_no_prompt("a")], effects=weft.InMemoryEffects([]))
