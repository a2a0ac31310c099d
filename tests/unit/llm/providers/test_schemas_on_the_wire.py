"""What each kind of provider gets for an output schema means what the schema says."""

import json
from typing import Any

import jsonschema_rs
import pytest
from msgspec import structs

from tests.grammar_sampler import Sampler
from tests.model_payloads import KEY, KINDS, MODEL_OF, a_payload, served_settings
from tests.model_server import ModelServer, gives_json
from weft.config.sections import ProviderSettings
from weft.llm.local.grammar import grammar_of
from weft.llm.models import ConfiguredModels
from weft.llm.providers.kinds import OpenAi

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
NODE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
    "required": ["name", "kids"],
    "additionalProperties": False,
}
ADA = {"name": "Ada", "age": 36}

CASES: dict[str, tuple[dict[str, Any], list[Any], list[Any]]] = {
    "open object": ({"type": "object"}, [{}, {"a": 1}], [1]),
    "open objects in an array": ({"type": "array", "items": {"type": "object"}}, [[], [{"a": 1}]], [[1]]),
    "open object behind a reference": (
        {
            "$defs": {"any": {"type": "object"}},
            "type": "object",
            "properties": {"x": {"$ref": "#/$defs/any"}},
            "required": ["x"],
            "additionalProperties": False,
        },
        [{"x": {"a": 1}}],
        [{"x": 1}],
    ),
    "anything": (
        {
            "type": "object",
            "properties": {"a": True, "b": {"type": "array", "items": True}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
        [{"a": 1, "b": ["x", None]}, {"a": {"c": 2}, "b": []}],
        [{"a": 1}, {"a": 1, "b": 2}],
    ),
    "named properties and others": (
        {**PERSON, "additionalProperties": {"type": "integer"}},
        [ADA | {"x": 1}],
        [{}, ADA | {"x": "y"}],
    ),
    "nothing said of others": (
        {name: value for name, value in PERSON.items() if name != "additionalProperties"},
        [ADA | {"x": 1}],
        [{}],
    ),
    "map": ({"type": "object", "additionalProperties": {"type": "integer"}}, [{"a": 1}], [{"a": "b"}]),
    "closed object": (PERSON, [ADA], [{}, {"name": "Ada"}, ADA | {"x": 1}]),
    "optional property": ({**PERSON, "required": ["name"]}, [{"name": "Ada"}, ADA], [{"age": 1}]),
    "reference": (
        {"$defs": {"person": PERSON}, "type": "array", "items": {"$ref": "#/$defs/person"}},
        [[ADA]],
        [[{"name": "Ada"}]],
    ),
    "reference at the root": ({"$defs": {"person": PERSON}, "$ref": "#/$defs/person"}, [ADA], [{}]),
    "reference to itself": (
        {"$defs": {"node": NODE}, "type": "array", "items": {"$ref": "#/$defs/node"}},
        [[{"name": "a", "kids": [{"name": "b", "kids": []}]}]],
        [[{"name": "a", "kids": [1]}]],
    ),
    "reference to a property": (
        {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/anyOf/0"}}]},
        [1, [1]],
        [["a"]],
    ),
    "reference to a property of an object": (
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"$ref": "#/properties/a"}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
        [{"a": "x", "b": "y"}],
        [{"a": "x", "b": 1}],
    ),
    "definitions under their old name": (
        {
            "definitions": {"person": PERSON},
            "type": "object",
            "properties": {"who": {"$ref": "#/definitions/person"}},
            "required": ["who"],
            "additionalProperties": False,
        },
        [{"who": ADA}],
        [{"who": {}}],
    ),
    "condition beside a reference": (
        {
            "$defs": {"word": {"type": "string"}},
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/word", "enum": ["x", "y"]}},
            "required": ["a"],
            "additionalProperties": False,
        },
        [{"a": "x"}],
        [{"a": "z"}, {"a": 1}],
    ),
    "anyOf": ({"anyOf": [PERSON, {"type": "null"}]}, [ADA, None], [1]),
    "oneOf": ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, ["a", 1], [None]),
    "allOf": (
        {"allOf": [{"type": "object", "required": ["a"]}, {"type": "object", "required": ["b"]}]},
        [{"a": 1, "b": 2}],
        [{"a": 1}],
    ),
    "type list": (
        {"type": ["object", "null"], "properties": {"a": {"type": "string"}}},
        [None, {"b": 1}],
        [1],
    ),
    "array of anything": ({"type": "array"}, [[1, "a", {"b": 1}]], [1]),
    "tuple": (
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2},
        [["a", 1]],
        [[1, "a"]],
    ),
    "bounded items": (
        {"type": "array", "items": {"type": "integer", "exclusiveMaximum": 5}, "minItems": 2},
        [[1, 4]],
        [[1, 5], [1]],
    ),
    "enum": ({"enum": ["a", "b"]}, ["a"], ["c"]),
    "enum of several types": ({"enum": [1, "a", None]}, [1, "a", None], [2]),
    "const": ({"const": None}, [None], [1]),
    "pattern": ({"type": "string", "pattern": "^a+$"}, ["aa"], ["b"]),
    "not": ({"type": "string", "not": {"const": "x"}}, ["y"], ["x"]),
    "no type": ({"properties": {"a": {"type": "string"}}}, [{"a": "b", "c": 1}], [{"a": 1}]),
}


UNSAID_BY_GRAMMARS = {"pattern", "not"}
"""The evaluator checks these after the model has answered."""


def sampled(name: str, times: int) -> list[Any]:
    """Return values that the grammar of a case lets a model write; they are kept short."""
    schema = CASES[name][0]
    short = {"array": {"maxItems": 2}, "object": {"maxProperties": 1}}.get(str(schema.get("type")), {})
    sampler = Sampler(grammar_of(schema | short), 0)
    return [json.loads(sampler.text()) for _ in range(times)]


def sent_schema(body: dict[str, Any]) -> dict[str, Any] | None:
    """Return the JSON Schema of a request body in the dialect of whichever provider."""
    if "response_format" in body:
        found = body["response_format"]["json_schema"]["schema"]
    elif "output_config" in body:
        found = body["output_config"]["format"]["schema"]
    else:
        found = body.get("generationConfig", {}).get("responseJsonSchema")
    return None if found is None else dict(found)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", [*KINDS, "openai itself"])
async def test_what_is_sent_means_what_the_schema_says(
    model_server: ModelServer, kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, fitting, wrong = CASES[name]
    model_server.script(gives_json({"value": None}))
    monkeypatch.setattr(OpenAi, "home", model_server.base_url)
    settings = served_settings(model_server)
    home = ProviderSettings(kind="openai", api_key_env="SERVER_KEY", retries=0)
    settings = structs.replace(settings, providers={**settings.providers, "home": home})
    models = ConfiguredModels(settings, {"SERVER_KEY": KEY})
    model = await models.find("home:gpt-4o-mini" if kind == "openai itself" else MODEL_OF[kind])

    await model.request(a_payload(output_schema=schema))
    await models.close()

    body = model_server.requests[0].body
    sent = sent_schema(body)
    is_stated = "It must fit this JSON Schema" in json.dumps(body)
    if sent is None:
        assert is_stated
        return
    is_wrapped = sent.get("required") == ["value"]
    for value in fitting:
        assert jsonschema_rs.is_valid(sent, {"value": value} if is_wrapped else value)
    is_strict = body.get("response_format", {}).get("json_schema", {}).get("strict", True)
    for value in wrong:
        is_refused = not jsonschema_rs.is_valid(sent, {"value": value} if is_wrapped else value)
        assert (is_refused and is_strict) or is_stated


@pytest.mark.parametrize("name", sorted(CASES.keys() - UNSAID_BY_GRAMMARS - {"reference to itself"}))
def test_the_grammar_of_the_embedded_runtime_writes_what_the_schema_allows(name: str) -> None:
    wrong = [value for value in sampled(name, 5) if not jsonschema_rs.is_valid(CASES[name][0], value)]

    assert wrong == []


@pytest.mark.parametrize(
    "name", ["open object", "open objects in an array", "map", "named properties and others"]
)
def test_the_grammar_of_the_embedded_runtime_leaves_objects_open(name: str) -> None:
    objects = [
        found for value in sampled(name, 5) for found in (value if isinstance(value, list) else [value])
    ]

    assert any(set(found) - {"name", "age"} for found in objects)
