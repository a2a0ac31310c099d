"""What a task is given to work on: files it names, and what memory finds."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.model_calls import a_call, a_step
from weft import testing
from weft.config.sections import CommandSettings, MemorySettings
from weft.effects.local import LocalEffects
from weft.effects.ranking import TEMPLATE
from weft.errors import WeftError
from weft.evaluator.effects import ContextPayload, ContextQuery, Files, Step, ToolCall
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskResult
from weft.language.task_fields import ContextAssembly, ContextManagement
from weft.llm.errors import ModelError
from weft.llm.events import ModelEvent, TurnEnded
from weft.llm.payload import HandlerPayload
from weft.llm.protocol import Features, StaticModels
from weft.memory.memory import Found, Memory
from weft.memory.protocol import IndexReport, Match, Query
from weft.testing.scripted_model import ScriptedModel, tool_use
from weft.testing.simple_index import SimpleIndex

FRESH = ContextManagement("none", False, "notes_only", "enabled")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a small project, which is also the working folder."""
    root = tmp_path / "shop"
    (root / "lib").mkdir(parents=True)
    (root / "lib" / "prices.py").write_text("def rounded_price(amount):\n    return round(amount, 2)\n")
    (root / "lib" / "mail.py").write_text("def send_mail(to):\n    return f'to {to}'\n")
    (root / "NOTES.md").write_text("# Notes\n\nprices come from the warehouse\n")
    monkeypatch.chdir(root)
    return root


def with_model(root: Path, answers: Any = None, **given: Any) -> tuple[LocalEffects, ScriptedModel]:
    model = ScriptedModel(["ok"] * 5 if answers is None else answers, features=given.pop("features", None))
    given.setdefault("memory", testing.memory(root))
    return LocalEffects(models=StaticModels(model), **given), model


async def ask(effects: LocalEffects, prompt: str = "Change the rounded price.", **fields: Any) -> TaskResult:
    call = a_call(prompt, **fields)
    return await effects.call_model(a_step(call), call)


def fresh(**fields: Any) -> ContextPayload:
    return ContextPayload(settings=FRESH, wants_fresh=True, **fields)


def given_paths(result: TaskResult) -> list[str]:
    return [one["path"] for one in result.notes["context"]["given"]]


async def test_fresh_context_is_data_and_the_notes_say_which(shop: Path) -> None:
    effects, model = with_model(shop)

    result = await ask(effects, context=fresh())

    (sent,) = model.payloads
    assert "def rounded_price(amount):" in (sent.context or "")
    assert all("rounded_price" not in message.content for message in sent.messages)
    first = result.notes["context"]["given"][0]
    assert (first["id"], first["path"], first["source"]) == ("lib/prices.py", "lib/prices.py", "memory")
    assert first["lines"] == [[1, 2]]
    assert 0 < first["score"] <= 1
    assert first["why"]["symbols"] == ["price", "rounded"]
    assert "round(amount" not in str(result.notes)


async def test_a_task_without_fresh_context_asks_nobody(shop: Path) -> None:
    effects, model = with_model(shop, memory=None)

    result = await ask(effects)

    assert model.payloads[0].context is None
    assert "context" not in result.notes


async def test_relevant_inputs_and_what_is_inherited_take_part_and_guidance_orders(shop: Path) -> None:
    effects, _ = with_model(shop)
    payload = fresh(relevant_inputs=("about",))

    result = await ask(
        effects, "zebra", context=payload, inputs={"about": "mail", "secret": "warehouse"}, unmentioned=()
    )
    assert given_paths(result) == ["lib/mail.py"]

    guidance = ContextAssembly(primary_elements="NOTES.md", excluded_elements="mail")
    result = await ask(effects, "prices and mail", context=fresh(assembly=guidance))
    assert given_paths(result) == ["NOTES.md", "lib/prices.py"]
    assert result.notes["context"]["excluded"] == 1

    result = await ask(effects, "zebra", context=fresh(previous_outputs="the warehouse"))
    assert given_paths(result) == ["NOTES.md"]
    result = await ask(effects, "zebra", context=fresh(inherited={"place": "warehouse"}))
    assert given_paths(result) == ["NOTES.md"]


async def test_what_does_not_fit_the_budget_is_left_out(shop: Path) -> None:
    effects, model = with_model(shop, memory_settings=MemorySettings(max_tokens=60))

    result = await ask(effects, "prices rounded price", context=fresh())

    assert len(given_paths(result)) == 1
    assert result.notes["context"]["left_out"] >= 1
    assert (model.payloads[0].context or "").count("<weft-data kind=") == 2  # the summary, and one file


@pytest.mark.parametrize("window", [200, 260, 400, 700, 1500])
async def test_memory_never_makes_a_task_outgrow_its_window(shop: Path, window: int) -> None:
    for number in range(30):
        (shop / f"price{number}.py").write_text(f"def price_{number}():\n" + "    # price\n" * 25)
    effects, model = with_model(shop, features=Features(context_window=window))

    result = await ask(effects, "price", context=fresh())

    assert result.content == "ok"
    assert await model.count_tokens(model.payloads[0]) <= window * 0.9


@pytest.mark.parametrize(
    "files",
    [
        Files(source="literal", paths=("NOTES.md", "gone.md"), optional=(1,)),
        Files(source="command", text="ls NOTES.md"),
    ],
)
async def test_the_notes_name_the_files_of_a_task_that_does_not_ask_memory(shop: Path, files: Files) -> None:
    effects, _ = with_model(shop)

    result = await ask(effects, files=files)

    given = [{"id": "NOTES.md", "path": "NOTES.md", "source": "file_paths"}]
    assert result.notes["context"] == {"given": given}
    assert "warehouse" not in str(result.notes)


async def test_a_description_finds_whole_files_and_named_files_come_first(shop: Path) -> None:
    effects, model = with_model(shop)

    result = await ask(effects, "Say it.", files=Files("description", text="rounded price"))

    assert "return round(amount, 2)" in (model.payloads[0].context or "")
    assert given_paths(result)[0] == "lib/prices.py"

    both = await ask(
        effects, context=fresh(), files=Files("literal", ("lib/mail.py", "none.txt"), optional=(1,))
    )
    assert given_paths(both)[0] == "lib/mail.py"
    assert both.notes["context"]["given"][0]["source"] == "file_paths"
    assert "lib/prices.py" in given_paths(both)
    assert both.notes["warnings"][0].startswith("file 'none.txt' skipped")
    context = model.payloads[1].context or ""
    assert context.index("def send_mail") < context.index("def rounded_price")


@pytest.mark.parametrize("name", ["lib/prices.py", "./lib/../lib/prices.py"])
async def test_a_file_that_is_named_is_not_given_again_by_memory(shop: Path, name: str) -> None:
    effects, model = with_model(shop, memory_settings=MemorySettings(max_pieces=1))

    result = await ask(effects, context=fresh(), files=Files("literal", (name,)))

    assert given_paths(result) == [name, "NOTES.md"]
    assert (model.payloads[0].context or "").count("def rounded_price") == 1


async def test_a_program_whose_task_names_files_and_wants_fresh_context_gets_both(shop: Path) -> None:
    effects, model = with_model(shop)
    program = """(task :instructions "Change the rounded price."
        :context (:inherit "none" :fresh "enabled") :files ("lib/mail.py"))"""

    await weft.evaluate_async(program, effects=effects)

    context = model.payloads[0].context or ""
    assert context.index("def send_mail") < context.index("def rounded_price")


async def test_a_context_description_is_matched_instead_of_the_description(shop: Path) -> None:
    effects, _ = with_model(shop)

    by_own = await ask(effects, description="mail", files=Files("description", text="zebra"))
    by_other = await ask(effects, description="mail", files=Files("context_description", text="zebra"))

    assert given_paths(by_own) == ["lib/mail.py"]
    assert by_other.notes["warnings"] == ["no file matches the description of file_paths: zebra"]


async def test_a_file_that_leads_outside_once_it_was_matched_is_a_warning(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = testing.memory(shop)
    effects, _ = with_model(shop, memory=memory)
    outside = shop.parent / "outside.py"
    outside.write_text("canary = 1\n")
    find = memory.find

    def find_and_swap(query: ContextQuery, **given: Any) -> Found:
        found = find(query, **given)
        (shop / "lib" / "prices.py").unlink()
        (shop / "lib" / "prices.py").symlink_to(outside)
        return found

    monkeypatch.setattr(memory, "find", find_and_swap)

    result = await ask(effects, files=Files("description", text="rounded price"))

    assert "lib/prices.py" not in given_paths(result)
    assert any("'lib/prices.py' skipped" in warning for warning in result.notes["warnings"])


class _Broken(SimpleIndex):
    def update(self, roots: Sequence[Path], on_progress: object = None) -> IndexReport:
        raise OSError("the disk is full")


class _BrokenMatcher:
    def match(self, query: Query) -> list[Match]:
        raise RuntimeError("no such table")


async def test_memory_that_fails_fails_the_task_for_its_reason(shop: Path) -> None:
    broken = Memory(_Broken(), SimpleIndex(), [shop])
    unmatched = Memory(SimpleIndex(), _BrokenMatcher(), [shop])

    for memory, reason in ((broken, "context_retrieval_failure"), (unmatched, "context_matching_failure")):
        effects, model = with_model(shop, memory=memory)
        for fields in ({"context": fresh()}, {"files": Files("description", text="x")}):
            with pytest.raises(TaskFailed) as caught:
                await ask(effects, **fields)
            error = caught.value.result().notes["error"]
            assert error["reason"] == reason
            assert error["details"]["context_metrics"]["items"] == 0
        assert model.payloads == []  # nothing was paid for


async def test_a_failed_context_says_what_there_was_of_it(shop: Path) -> None:
    effects, _ = with_model(shop, memory=Memory(_Broken(), SimpleIndex(), [shop]))

    with pytest.raises(TaskFailed) as caught:
        await ask(effects, context=fresh(), files=Files("literal", ("NOTES.md",)))

    details = caught.value.result().notes["error"]["details"]
    assert [one["path"] for one in details["partial_context"]] == ["NOTES.md"]
    assert details["context_metrics"]["items"] == 1
    assert details["context_metrics"]["used"] > 0
    assert "warehouse" not in str(details)


async def test_the_notes_say_which_data_a_task_had(shop: Path) -> None:
    effects, _ = with_model(shop)
    payload = fresh(inherited={"place": "warehouse", "shown": 1}, previous_outputs="1. plan: COMPLETE")

    result = await ask(
        effects,
        context=payload,
        files=Files("literal", ("NOTES.md",)),
        inputs={"a": 1},
        unmentioned=("a",),
        mentioned=("shown",),
    )

    assert result.notes["dataUsage"].startswith("1 file, ")
    assert result.notes["dataUsage"].endswith(" of memory, 1 input, 1 inherited name, earlier outputs")
    assert "dataUsage" not in (await ask(effects, "Say hello.")).notes


async def test_a_command_that_lists_no_paths_cannot_be_parsed(shop: Path) -> None:
    effects, model = with_model(shop, commands=CommandSettings(allow=("printf",)))

    with pytest.raises(TaskFailed) as caught:
        await ask(effects, files=Files("command", text=r"printf 'a.py\0b.py\n'"))

    assert caught.value.result().notes["error"]["reason"] == "context_parsing_failure"
    assert model.payloads == []


async def test_get_context_tells_a_failed_matching_and_fails_without_an_index(shop: Path) -> None:
    query = ContextQuery(query="x")
    unmatched, _ = with_model(shop, memory=Memory(SimpleIndex(), _BrokenMatcher(), [shop]))
    broken, _ = with_model(shop, memory=Memory(_Broken(), SimpleIndex(), [shop]))

    found = await unmatched.get_context(Step("1", query), query)
    assert found["matches"] == []
    assert "no such table" in found["error"]
    with pytest.raises(TaskFailed, match="the disk is full"):
        await broken.get_context(Step("1", query), query)


async def test_the_form_the_tool_and_a_models_use_of_it_give_the_same(shop: Path) -> None:
    effects, model = with_model(shop, [tool_use("system:get_context", query="rounded price"), "done"])
    query = ContextQuery(query="rounded price")
    by_form = await weft.evaluate_async('(get-context :query "rounded price")', effects=effects)
    by_program = await weft.evaluate_async('(system:get_context :query "rounded price")', effects=effects)
    call = ToolCall(tool="system:get_context", arguments={"query": "rounded price"})
    by_tool = await effects.call_tool(Step("1", call), call)

    await ask(effects, tools=("system:get_context",))

    assert by_form == by_program == by_tool == await effects.get_context(Step("1", query), query)
    assert by_form["matches"][0]["source_path"] == "lib/prices.py"
    assert "def rounded_price" in model.payloads[1].messages[-1].content


async def test_many_tasks_at_once_make_one_index(shop: Path) -> None:
    updates: list[IndexReport] = []
    index = SimpleIndex()
    memory = Memory(index, index, [shop], on_updated=updates.append)
    effects, _ = with_model(shop, ["ok"] * 20, memory=memory)

    await asyncio.gather(*(ask(effects, context=fresh()) for _ in range(20)))

    assert len(updates) == 1


def ranking(payload: HandlerPayload) -> Any:
    """Prefer notes, and respond to tasks with ok."""
    if payload.metadata.template != TEMPLATE:
        return "ok"
    assert payload.output_schema is not None
    ids = payload.output_schema["properties"]["relevant"]["items"]["enum"]
    return {"relevant": [one for one in ids if "NOTES" in one]}


RANKED = MemorySettings(rerank=True)


async def test_the_tasks_model_ranks_and_its_requests_are_counted(shop: Path) -> None:
    events: list[ModelEvent] = []
    effects, model = with_model(shop, ranking, memory_settings=RANKED, on_event=events.append)

    result = await ask(effects, "rounded prices", context=fresh())

    assert given_paths(result)[0] == "NOTES.md"
    assert result.notes["context"]["rerank"] == {"model": "test:scripted", "calls": 1, "failed": False}
    assert sum(isinstance(event, TurnEnded) for event in events) == 2
    assert {entry.template for entry in effects.ledger.entries} == {TEMPLATE, None}
    request = model.payloads[0]
    assert "def rounded_price" in (request.context or "")
    assert all("def rounded_price" not in message.content for message in request.messages)


async def test_a_query_can_ask_for_ranking_or_do_without(shop: Path) -> None:
    effects, model = with_model(shop, ranking)
    program = '(get-context :query "rounded prices" :rerank {} :limit 3)'

    plain = await weft.evaluate_async(program.format("false"), effects=effects)
    ranked = await weft.evaluate_async(program.format("true"), effects=effects)

    assert plain["matches"][0]["source_path"] == "lib/prices.py"
    assert ranked["matches"][0]["source_path"] == "NOTES.md"
    assert len(model.payloads) == 1


async def test_a_model_that_cannot_rank_is_a_warning(shop: Path) -> None:
    def failing(payload: HandlerPayload) -> Any:
        is_task = payload.metadata.template != TEMPLATE
        return "ok" if is_task else ModelError("llm_error", "it is asleep")

    effects, _ = with_model(shop, failing, memory_settings=RANKED)

    result = await ask(effects, "rounded prices", context=fresh())
    assert given_paths(result)[0] == "lib/prices.py"
    assert "it is asleep" in result.notes["warnings"][0]

    query = ContextQuery(query="rounded prices")
    found = await effects.get_context(Step("1", query), query)
    assert found["matches"]
    assert "it is asleep" in found["error"]


async def test_ranking_pays_out_of_the_budget(shop: Path) -> None:
    effects, model = with_model(shop, ranking, memory_settings=RANKED)
    program = '(with-budget (:tokens {}) (get-context :query "rounded prices"))'

    found = await weft.evaluate_async(program.format(100), effects=effects)
    assert found["matches"][0]["source_path"] == "lib/prices.py"
    assert "budget" in found["error"]
    assert model.payloads == []

    found = await weft.evaluate_async(program.format(100_000), effects=effects)
    assert found["matches"][0]["source_path"] == "NOTES.md"


async def test_a_program_whose_files_are_described_sees_the_right_one(shop: Path) -> None:
    effects, model = with_model(shop)
    program = """<task><instructions>What does it do?</instructions>
    <file_paths source="description"><description>how {{thing}} is sent</description></file_paths></task>"""

    result = await weft.evaluate_async(program, effects=effects, thing="mail")

    assert given_paths(result)[0] == "lib/mail.py"
    assert "def send_mail(to):" in (model.payloads[0].context or "")


async def test_the_default_effects_index_the_working_folder(shop: Path) -> None:
    effects, _ = with_model(shop, memory=None)
    try:
        result = await ask(effects, context=fresh())
    finally:
        await effects.close()

    assert given_paths(result)[0] == "lib/prices.py"


@pytest.mark.parametrize(
    ("keyword", "value", "problem"),
    [
        *(
            (":limit", one, ":limit is a whole number from 1 to 1000")
            for one in ("0", '"many"', "1.5", "1001")
        ),
        (":limit", "(- 1)", ":limit is a whole number from 1 to 1000; this is -1"),
        (":strategy", '"bogus"', ':strategy is "content" or "metadata", not'),
        (":strategy", '(string-append "bo" "gus")', ':strategy is "content" or "metadata", not'),
    ],
)
async def test_a_limit_or_a_strategy_that_there_is_not_is_the_authors_mistake(
    shop: Path, keyword: str, value: str, problem: str
) -> None:
    effects, _ = with_model(shop)
    program = f'(get-context :query "x" {keyword} {value})'

    with pytest.raises(WeftError, match=problem):
        await weft.evaluate_async(program, effects=effects)


async def test_the_most_and_no_limit_are_taken(shop: Path) -> None:
    effects, _ = with_model(shop)

    for limit in ("1000", "nil"):
        program = f'(get-context :query "mail" :limit {limit} :strategy "metadata")'
        assert (await weft.evaluate_async(program, effects=effects))["matches"]
