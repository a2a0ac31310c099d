"""The conversation of tasks with `history`: one order, whatever ended first."""

import asyncio
from typing import Any

import pytest

from weft.evaluator.effects import UNLIMITED, BudgetAccount, ModelCall, Step, Turn
from weft.evaluator.evaluator import Evaluator
from weft.evaluator.results import TaskResult
from weft.language.sexp import read_program
from weft.language.source import Source
from weft.testing.in_memory_effects import InMemoryEffects

SAY = '(deftask say (what) :instructions "{{what}}" :history (:use true)) '


class Talking(InMemoryEffects):
    """Answers a prompt with itself in capitals, after as many turns of the loop as it ends with."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []

    async def call_model(self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED) -> TaskResult:
        self.steps.append(step)
        digits = call.prompt[len(call.prompt.rstrip("0123456789")) :]
        for _ in range(int(digits or 0)):
            await asyncio.sleep(0)
        self.order.append(call.prompt)
        return TaskResult(call.prompt.upper(), "COMPLETE", notes={"answered_at": f"at {call.prompt}"})


async def seen(program: str) -> dict[str, list[str]]:
    """Return the prompts of the conversation that each task saw, by its own prompt."""
    effects = Talking()
    await Evaluator(effects).evaluate(read_program(Source("<test>", SAY + program)))
    return {call.prompt: [turn.prompt for turn in call.conversation] for call in effects.calls}


async def test_a_task_sees_the_prompts_and_answers_before_it() -> None:
    effects = Talking()
    await Evaluator(effects).evaluate(read_program(Source("<test>", SAY + '(say "a") (say "b")')))

    assert effects.calls[1].conversation == (Turn("a", "A", "at a"),)


@pytest.mark.parametrize(
    ("program", "prompts"),
    [
        ('(say "a") (say "b") (say "c")', {"c": ["a", "b"]}),
        ('(task :instructions "a") (say "b") (task :instructions "c")', {"a": [], "b": [], "c": []}),
        ('(say "a") (say "b" :history (dict :record false)) (say "c")', {"b": ["a"], "c": ["a"]}),
        ('(say "a") (say "b" :history (dict :use false)) (say "c")', {"b": [], "c": ["a", "b"]}),
        ('(say "a") (say "b") (say "c") (say "d" :history (dict :turns 2))', {"d": ["b", "c"]}),
    ],
)
async def test_the_settings_of_a_task(program: str, prompts: dict[str, list[str]]) -> None:
    assert {name: was for name, was in (await seen(program)).items() if name in prompts} == prompts


async def test_concurrent_items_begin_alike_and_end_in_their_own_order() -> None:
    effects = Talking()
    program = SAY + '(say "a") (map say (list "x9" "y5" "z1")) (say "b")'
    await Evaluator(effects).evaluate(read_program(Source("<test>", program)))

    told = {call.prompt: [turn.prompt for turn in call.conversation] for call in effects.calls}
    assert effects.order == ["a", "z1", "y5", "x9", "b"]
    assert told["x9"] == told["y5"] == told["z1"] == ["a"]
    assert told["b"] == ["a", "x9", "y5", "z1"]


async def test_an_item_sees_its_own_turns_and_not_those_of_others() -> None:
    program = (
        '(map (lambda (n) (say (string-append n "3")) (say (string-append n "-"))) (list "x" "y")) (say "b")'
    )

    told = await seen(program)

    assert (told["x-"], told["y-"]) == (["x3"], ["y3"])
    assert told["b"] == ["x3", "x-", "y3", "y-"]


async def test_concurrent_forms_inside_each_other() -> None:
    program = """
    (say "a")
    (parallel (parallel (say "p9") (say "q1")) (begin (say "r5") (say "s")))
    (say "b")"""

    told = await seen(program)

    assert (told["q1"], told["s"]) == (["a"], ["a", "r5"])
    assert told["b"] == ["a", "p9", "q1", "r5", "s"]


@pytest.mark.parametrize(
    "program",
    [
        '(say "a") (sequential (say "x") (say "y"))',
        '(template both () (begin (say "x") (say "y"))) (say "a") (both)',
    ],
)
async def test_composites_and_template_calls_are_part_of_what_ran_before(program: str) -> None:
    told = await seen(f'{program} (say "b")')

    assert told["y"] == ["a", "x"]
    assert told["b"] == ["a", "x", "y"]


async def test_a_composite_whose_result_is_known_already_has_its_turns_too() -> None:
    class Stored(Talking):
        """Runs a composite once; the second evaluation gets what the first one has stored."""

        def __init__(self) -> None:
            super().__init__()
            self.known: dict[str, TaskResult] = {}

        async def around(self, step: Step, body: Any) -> TaskResult:
            if step.key not in self.known:
                self.known[step.key] = await body()
            return self.known[step.key]

    effects = Stored()
    program = read_program(Source("<test>", SAY + '(sequential (say "x") (say "y")) (say "b")'))
    first = await Evaluator(effects).evaluate(program)
    second = await Evaluator(effects).evaluate(program)

    asked = [(call.prompt, [turn.prompt for turn in call.conversation]) for call in effects.calls]
    assert asked == [("x", []), ("y", ["x"]), ("b", ["x", "y"]), ("b", ["x", "y"])]
    assert first == second
    assert "recorded_turns" not in first.notes


async def test_concurrent_work_that_fails_leaves_nothing_in_the_conversation() -> None:
    program = '(say "a") (try (parallel (say "x") (begin (say "y9") (car 1))) (catch e 1)) (say "b")'

    assert (await seen(program))["b"] == ["a"]


async def test_a_repaired_answer_is_recorded_once_with_the_first_prompt() -> None:
    answers = ["no json", "[1]", "done"]
    effects = InMemoryEffects(answers)
    program = (
        '(task :instructions "count" :output "json" :history (:use true))'
        '(task :instructions "more" :history (:use true))'
    )
    await Evaluator(effects).evaluate(read_program(Source("<test>", program)))

    first, second, more = effects.calls
    assert first.conversation == second.conversation == ()
    assert second.repair is not None
    assert more.conversation == (Turn("count", "[1]"),)


async def test_evaluations_do_not_share_a_conversation() -> None:
    effects = Talking()
    evaluator = Evaluator(effects)
    await evaluator.evaluate(read_program(Source("<test>", SAY + '(say "a")')))
    await evaluator.evaluate(read_program(Source("<test>", '(say "b")')))

    assert [call.conversation for call in effects.calls] == [(), ()]
