"""Reuse: whose answers become links in later runs, and whose do not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.given_tools import GivenTool, GivenTools
from tests.runs_bench import MortalStore, RunsBench
from weft.config.sections import ModelParameters, ModelsSettings, ProviderSettings
from weft.effects.local import LocalEffects
from weft.evaluator.tools import ToolContext
from weft.llm.models import ConfiguredModels
from weft.llm.payload import HandlerPayload, ModelReply, Usage
from weft.llm.providers.model import ProviderModel
from weft.runs.outcome import RunOutcome
from weft.store.protocol import TaskStore
from weft.tasks.record import Status
from weft.tools.functions import FunctionTool

ASK = '(deftask ask (x) :instructions "{{x}}")'


@pytest.fixture
def runs(store: TaskStore) -> RunsBench:
    return RunsBench(store)


async def test_an_answer_that_a_budget_has_cut_is_not_reused(runs: RunsBench) -> None:
    def reply(payload: HandlerPayload) -> ModelReply:
        most = payload.metadata.max_tokens or 500
        words = " ".join(["word"] * min(most, 500))
        usage = Usage(input_tokens=10, output_tokens=min(most, 500))
        reason: Any = "length" if most < 500 else "stop"
        return ModelReply(model="test:scripted", text=words, finish_reason=reason, usage=usage)

    runs.with_handler(reply)
    short = await runs.run(f'{ASK} (with-budget (:tokens 100) (ask "tell all"))')
    assert short.result is not None
    assert short.result.notes["truncated"] is True
    long = await runs.run(f'{ASK} (ask "tell all")')
    assert long.result is not None
    assert len(long.result.content.split()) == 500

    assert (await runs.run(f'{ASK} (ask "tell all")')).result.notes["reused"]  # type: ignore[union-attr]
    assert runs.asked == {"tell all": 2}


def counting(runs: RunsBench) -> None:
    """Have the model give another answer each time, whatever it is asked."""
    runs.with_handler(lambda payload: f"answer {runs.asked.total()}")


def value(outcome: RunOutcome) -> Any:
    assert outcome.result is not None, outcome.status
    return outcome.result.value


async def test_a_run_that_asks_the_same_several_times_gets_several_answers(runs: RunsBench) -> None:
    counting(runs)
    program = f'{ASK} (list (ask "an idea") (ask "an idea") (loop 2 (ask "an idea")))'
    first = await runs.run(program)
    assert value(first) == ["answer 1", "answer 2", "answer 4"]

    again = await runs.run(program)  # and when it is run again, the same ones
    assert value(again) == value(first)
    more = await runs.run(f'{ASK} (map ask (list "an idea" "an idea" "an idea" "an idea" "an idea"))')
    assert value(more) == [f"answer {number}" for number in range(1, 6)]
    assert runs.asked == {"an idea": 5}


async def test_a_run_that_goes_on_is_not_given_an_answer_twice(runs: RunsBench) -> None:
    counting(runs)
    program = f'{ASK} (list (ask "an idea") (ask "between") (ask "an idea"))'
    await runs.run(f'{ASK} (list (ask "an idea") (ask "an idea"))')
    root_id, mortal = await runs.begin(program), MortalStore(runs.store)

    def dies_between(payload: HandlerPayload) -> str:
        mortal.die()
        return "never stored"

    runs.with_handler(dies_between)
    assert await runs.live(root_id, mortal)
    counting(runs)
    outcome = await runs.go_on(root_id)

    assert value(outcome)[::2] == ["answer 1", "answer 2"]
    assert runs.asked["an idea"] == 2


async def test_the_latest_run_is_linked_so_that_no_reuse_brings_new_answers(runs: RunsBench) -> None:
    counting(runs)
    program = f'{ASK} (list (ask "a") (ask "b"))'
    await runs.run(program)
    newer = value(await runs.run(program, reuse=False))
    assert newer == ["answer 3", "answer 4"]

    assert value(await runs.run(program)) == newer


async def test_a_script_that_says_so_is_reused_in_its_folder_only(
    runs: RunsBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.effects = LocalEffects
    seen = []
    for name in ("one", "one", "two"):
        (tmp_path / name).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / name)
        outcome = await runs.run('(get (script :argv ("pwd") :reuse true) "content")')
        links = [task for task in await runs.flow(outcome.root_id) if task.original_task_id is not None]
        seen.append((value(outcome).strip().rpartition("/")[2], len(links)))

    assert seen == [("one", 0), ("one", 1), ("two", 0)]


async def test_what_a_pure_tool_gave_is_reused_until_its_code_is_changed(runs: RunsBench) -> None:
    called: list[str] = []

    def double(number: int) -> int:
        called.append("double")
        return number * 2

    def twice(number: int) -> int:
        called.append("twice")
        return number + number

    def now(number: int, context: ToolContext) -> int:
        called.append(context.step_key)
        return number

    for function, has_effects in (
        (double, False),
        (double, False),
        (twice, False),
        (double, True),
        (now, False),
    ):
        tool = FunctionTool(
            function, name="own:act", description="Acts.", has_effects=has_effects, is_pure=not has_effects
        )
        runs.with_handler(lambda payload: "", tools=GivenTools(tool))
        for _ in range(2):
            await runs.run("(list (own:act :number 3) (own:act :number 4))")

    assert called == [*["double"] * 2, *["twice"] * 2, *["double"] * 4, *["1", "2"] * 2]


async def test_a_tool_that_only_reads_is_called_in_every_run(runs: RunsBench) -> None:
    texts = iter(["old", "new"])
    runs.with_handler(lambda payload: "", tools=GivenTools(GivenTool("notes:read", lambda: next(texts))))

    assert [value(await runs.run("(notes:read)")) for _ in range(2)] == ["old", "new"]


HERE = "http://127.0.0.1:1/v1"


@pytest.mark.parametrize(
    ("url", "given", "is_reused"),
    [
        (HERE, {}, True),
        (HERE, {"input_price": 2.0, "output_price": 1.0}, True),
        ("http://127.0.0.1:2/v1", {}, False),
        (HERE, {"temperature": 1.9}, False),
        (HERE, {"max_tokens": 5000}, False),
        (HERE, {"output": "none"}, False),
    ],
    ids=["nothing", "prices", "address", "temperature", "length", "output"],
)
async def test_other_settings_of_a_model_make_another_question(
    runs: RunsBench, monkeypatch: pytest.MonkeyPatch, url: str, given: dict[str, Any], is_reused: bool
) -> None:
    async def request(self: ProviderModel, payload: HandlerPayload, on_text: object = None) -> ModelReply:
        runs.asked[payload.messages[-1].content] += 1
        return ModelReply(model=self.id, text="hello", usage=Usage(input_tokens=1, output_tokens=1))

    monkeypatch.setattr(ProviderModel, "request", request)
    for address, settings in ((HERE, {}), (url, given)):
        runs.effects = effects_with(address, {"context_window": 1000, "temperature": 0.0, **settings})
        assert (await runs.run(f'{ASK} (ask "hi")')).status is Status.COMPLETED

    assert runs.asked == {"hi": 1 if is_reused else 2}


def effects_with(url: str, parameters: dict[str, Any]) -> Callable[[], LocalEffects]:
    settings = ModelsSettings(
        default="mine:m",
        providers={"mine": ProviderSettings(kind="openai", base_url=url)},
        settings={"mine:m": ModelParameters(**parameters)},
    )
    return lambda: LocalEffects(models=ConfiguredModels(settings, {}))
