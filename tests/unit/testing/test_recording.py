"""Recorded answers."""

# ruff: noqa: ASYNC240 - the files are small, and the tests are about them

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.payloads import ECHO, VERDICT, a_payload
from weft.llm.errors import ModelError
from weft.llm.payload import (
    AssistantMessage,
    ContextMetrics,
    HandlerPayload,
    PayloadMetadata,
    ResourceMetrics,
    ToolMessage,
    TurnMetrics,
    Usage,
    UserMessage,
)
from weft.llm.protocol import Features, Model, StaticModels
from weft.secrets.references import Secret
from weft.testing.recording import BadCassette, RecordingModel, ReplayingModel, recorded, recorded_models
from weft.testing.scripted_model import ScriptedModel, tool_use


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cassettes" / "review.jsonl"


async def test_what_is_recorded_is_replayed(path: Path) -> None:
    inner = ScriptedModel([{"success": True}, tool_use("system:echo", text="é")], input_price=2.0)
    asked = [a_payload("judge", schema=VERDICT), a_payload("echo", tools=(ECHO,))]
    recording: Model = RecordingModel(inner, path)
    replies = [await recording.request(payload) for payload in asked]

    replaying: Model = ReplayingModel(path)
    assert [await replaying.request(payload) for payload in reversed(asked)] == replies[::-1]
    assert (replaying.id, replaying.features) == (inner.id, inner.features)
    assert [await replaying.count_tokens(one) for one in asked] == [
        await inner.count_tokens(one) for one in asked
    ]
    assert replaying.price(Usage(input_tokens=500_000)) == 1.0


async def test_the_same_payload_asked_twice_gives_its_answers_in_order(path: Path) -> None:
    recording = RecordingModel(ScriptedModel(["one", "two"]), path)
    for _ in range(2):
        await recording.request(a_payload())

    replaying = ReplayingModel(path)
    assert [(await replaying.request(a_payload())).text for _ in range(2)] == ["one", "two"]
    with pytest.raises(ModelError, match=r"recorded 2 times in .*, and was sent once more"):
        await replaying.request(a_payload())


async def test_times_and_counters_make_no_difference(path: Path) -> None:
    await RecordingModel(ScriptedModel(["x"]), path).request(a_payload("hello"))
    metrics = ResourceMetrics(TurnMetrics(3, 20), ContextMetrics(100, 1000, 200))
    later = HandlerPayload(
        system_prompt="",
        messages=(UserMessage("hello", timestamp=datetime(2026, 1, 1, tzinfo=UTC)),),
        metadata=PayloadMetadata(model="test:scripted", resource_usage=metrics, max_tokens=77),
    )

    assert (await ReplayingModel(path).request(later)).text == "x"


async def test_what_a_schema_calls_a_timestamp_is_part_of_the_request(path: Path) -> None:
    asked = [
        a_payload("hello", schema={"properties": {"timestamp": {"type": kind}}})
        for kind in ("string", "integer")
    ]
    await RecordingModel(ScriptedModel(["x"]), path).request(asked[0])

    with pytest.raises(ModelError, match="not recorded"):
        await ReplayingModel(path).request(asked[1])


async def test_a_cassette_that_was_recorded_with_a_budget_is_replayed_without_one(path: Path) -> None:
    await RecordingModel(ScriptedModel(["x"]), path).request(a_payload("hello"))
    lines = path.read_text().splitlines()
    line = json.loads(lines[-1])
    line["exchange"]["request"]["metadata"]["maxTokens"] = 14_995  # as cassettes were once written
    line["exchange"]["key"] = "0" * 16
    path.write_text("\n".join([*lines[:-1], json.dumps(line), ""]))

    assert (await ReplayingModel(path).request(a_payload("hello"))).text == "x"


@pytest.mark.parametrize(
    "other",
    [
        a_payload("hello", system="Be brief."),
        a_payload("hello", context="data"),
        a_payload("hello", model="test:other"),
        a_payload("hello", schema={}),
        a_payload("hello", schema={"properties": {"timestamp": {"type": "string"}}}),
        a_payload("hello", after=(AssistantMessage(""), ToolMessage("x", "1", "echo"))),
    ],
)
async def test_everything_else_does(path: Path, other: HandlerPayload) -> None:
    await RecordingModel(ScriptedModel(["x"]), path).request(a_payload("hello"))

    with pytest.raises(ModelError, match="not recorded"):
        await ReplayingModel(path).request(other)


async def test_a_request_that_is_not_recorded_is_compared_with_the_nearest_one(path: Path) -> None:
    recording = RecordingModel(ScriptedModel(lambda _: "x"), path)
    await recording.request(a_payload("Summarise.\nAll of it."))
    await recording.request(a_payload("Review this code:\nx = 1\nBe strict."))

    with pytest.raises(ModelError) as failed:
        await ReplayingModel(path).request(a_payload("Review this code:\nx = 2\nBe strict."))

    assert failed.value.message.splitlines()[1:] == [
        "--- recorded",
        "+++ asked",
        "@@ -1,3 +1,3 @@",
        " messages[0].content: Review this code:",
        "-messages[0].content: x = 1",
        "+messages[0].content: x = 2",
        " messages[0].content: Be strict.",
    ]


async def test_auto_asks_for_what_is_not_recorded_and_only_for_that(path: Path) -> None:
    first = ScriptedModel(["one"])
    assert (await recorded(first, path).request(a_payload("1"))).text == "one"
    second = ScriptedModel(["two"])
    model = recorded(second, path)

    assert (await model.request(a_payload("1"))).text == "one"
    assert (await model.request(a_payload("2"))).text == "two"
    assert second.prompts == ["2"]
    replaying = recorded(None, path)
    assert [(await replaying.request(a_payload(prompt))).text for prompt in "12"] == ["one", "two"]


async def test_record_begins_anew(path: Path) -> None:
    await recorded(ScriptedModel(["old"]), path).request(a_payload())
    await recorded(ScriptedModel(["new"]), path, "record").request(a_payload())

    assert (await recorded(None, path).request(a_payload())).text == "new"
    assert path.read_text().count("exchange") == 1


async def test_an_error_is_passed_on_and_not_recorded(path: Path) -> None:
    model = recorded(ScriptedModel([ModelError("connection_error", "cut"), "there"]), path)

    with pytest.raises(ModelError, match="cut"):
        await model.request(a_payload())
    assert (await model.request(a_payload())).text == "there"
    assert (await recorded(None, path).request(a_payload())).text == "there"


async def test_a_run_that_was_killed_keeps_what_it_has(path: Path) -> None:
    model = recorded(ScriptedModel(["one", "two"]), path)
    await model.request(a_payload("1"))
    whole = path.read_bytes()
    await model.request(a_payload("2"))
    path.write_bytes(path.read_bytes()[: len(whole) + 30])

    again = recorded(ScriptedModel(["anew"]), path)
    assert (await again.request(a_payload("1"))).text == "one"
    assert (await again.request(a_payload("2"))).text == "anew"
    assert [json.loads(line) for line in path.read_text().splitlines()]
    assert path.read_bytes().startswith(whole)


async def test_what_another_recorded_meanwhile_outlives_the_line_that_was_cut(path: Path) -> None:
    await RecordingModel(ScriptedModel(["one"]), path).request(a_payload("first"))
    with path.open("a") as file:
        file.write('{"exchange": {"key": "cut' + "x" * 200_000)
    both = [recorded(ScriptedModel([text]), path) for text in ("two", "three")]

    await both[0].request(a_payload("second"))
    await both[1].request(a_payload("third"))

    replaying = ReplayingModel(path)
    asked = [a_payload(text) for text in ("first", "second", "third")]
    assert [(await replaying.request(payload)).text for payload in asked] == ["one", "two", "three"]


async def test_a_cassette_is_the_same_text_for_the_same_exchanges(tmp_path: Path) -> None:
    for name in ("a", "b"):
        model = recorded(ScriptedModel(["é", {"b": 1, "a": 2}]), tmp_path / name)
        await model.request(a_payload("1", schema=VERDICT))
        await model.request(a_payload("2", tools=(ECHO,)))

    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text()
    assert "é" in (tmp_path / "a").read_text()


async def test_no_secret_is_recorded_and_another_value_of_it_replays_as_well(path: Path) -> None:
    mine = Secret("rec-mine-8172/ab+c", "REC_KEY").reveal()
    reply = await recorded(ScriptedModel([f"key {mine}"]), path).request(
        a_payload(f"use {mine}", system=mine)
    )

    assert reply.text == "key [secret REC_KEY]"
    assert "rec-mine" not in path.read_text()
    other = Secret("rec-other-9911", "REC_KEY").reveal()
    assert (await recorded(None, path).request(a_payload(f"use {other}", system=other))).text == reply.text


async def test_models_are_recorded_under_the_names_they_were_asked_by(path: Path) -> None:
    good = ScriptedModel(["good"], id="openai:good", features=Features(context_window=7))
    fast = ScriptedModel(["fast"], id="openai:fast")
    models = recorded_models(StaticModels({"good": good, "openai:fast": fast}), path)
    for name, provider in ((None, None), ("good", None), ("x:fast", "openai")):
        model = await models.find(name, provider)
        if name is not None:
            await model.request(a_payload("hello", model=model.id))

    replayed = recorded_models(None, path)
    found = await replayed.find("good")
    assert (found.id, found.features.context_window) == ("openai:good", 7)
    assert (await found.request(a_payload("hello", model="openai:good"))).text == "good"
    assert (await replayed.find(None)).id == "openai:good"
    assert (await replayed.find("any:fast", "openai")).id == "openai:fast"
    with pytest.raises(
        ModelError, match=r"'slow' is not recorded in .* the default model, good, openai:fast"
    ):
        await replayed.find("slow")


async def test_models_are_not_looked_for_while_everything_is_recorded(path: Path) -> None:
    given = StaticModels(ScriptedModel(["x"]))
    await (await recorded_models(given, path).find("good")).request(a_payload())
    unused = StaticModels({})

    again = await recorded_models(unused, path).find("good")
    assert (await again.request(a_payload())).text == "x"
    assert unused.asked == []


def test_an_empty_or_foreign_file_is_no_cassette(path: Path) -> None:
    with pytest.raises(ModelError, match="nothing is recorded in"):
        recorded(None, path)
    path.parent.mkdir()
    path.write_text("hello\n")
    with pytest.raises(BadCassette, match=r"review.jsonl:1: not a line of a cassette"):
        recorded(None, path)
    path.write_text('{"cassette": 2}\n')
    with pytest.raises(BadCassette, match="version 2; this weft reads 1"):
        recorded(None, path)
