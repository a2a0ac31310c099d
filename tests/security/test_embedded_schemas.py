"""A schema may come from anybody: whatever it says, the process that holds the model lives on."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.embedded_model import require

ASK = """
import asyncio, json, sys
from weft.llm.errors import ModelError
from weft.llm.local.models import EmbeddedModels
from weft.llm.payload import HandlerPayload, PayloadMetadata, UserMessage

async def main():
    models = EmbeddedModels()
    model = await models.find("local:smollm2")
    for line in sys.stdin:
        payload = HandlerPayload(
            system_prompt="", messages=(UserMessage("JSON"),), output_schema=json.loads(line),
            metadata=PayloadMetadata(model=model.id, max_tokens=3),
        )
        try:
            await model.request(payload)
            print("answered", flush=True)
        except ModelError as error:
            print("refused", error.reason, flush=True)
    await models.close()

sys.setrecursionlimit(100_000)
asyncio.run(main())
"""


def _deep(depth: int, wrap: Any) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(depth):
        schema = wrap(schema)
    return schema


def _chained(count: int) -> dict[str, Any]:
    """Alternatives that refer to alternatives: two to the power of the count, if nobody counted."""
    definitions: dict[str, Any] = {"s0": {"type": "string"}}
    for number in range(1, count):
        before = {"$ref": f"#/$defs/s{number - 1}"}
        definitions[f"s{number}"] = {"anyOf": [before, {"anyOf": [before, {"const": number}]}]}
    return {"$defs": definitions, "$ref": f"#/$defs/s{count - 1}"}


SCHEMAS: dict[str, Any] = {
    "nested objects": _deep(900, lambda inner: {"properties": {"a": inner}, "required": ["a"]}),
    "nested arrays": _deep(900, lambda inner: {"type": "array", "items": inner, "minItems": 1}),
    "nested alternatives": _deep(14, lambda inner: {"anyOf": [inner, {"type": "array", "items": inner}]}),
    "nested within the limit": _deep(30, lambda inner: {"type": "array", "items": inner, "minItems": 1}),
    "chained references": _chained(30),
    "itself": {"$ref": "#"},
    "itself among others": {"anyOf": [{"type": "null"}, {"$ref": "#"}]},
    "round in a circle": {
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a",
    },
    "all of itself": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
    "a file": {"$ref": "file:///etc/passwd"},
    "many values": {"enum": list(range(100_000))},
    "a long value": {"const": "x" * 2_000_000},
    "many properties": {"properties": {f"p{number}": {"type": "integer"} for number in range(20_000)}},
    "hundreds of properties": {"properties": {f"p{number}": {"type": "integer"} for number in range(400)}},
    "a long string": {"type": "string", "minLength": 10**12, "maxLength": 10**15},
    "a long array": {"type": "array", "minItems": 10**12, "items": {"type": "array", "minItems": 10**12}},
    "different values": {"items": {"enum": list(range(7))}, "uniqueItems": True, "minItems": 3},
    "many different values": {"items": {"enum": list(range(99))}, "uniqueItems": True},
    "a large number": {"type": "integer", "minimum": 10**300},
    "no number": {"type": "number", "minimum": float("nan"), "maximum": float("inf")},
    "signs of the grammar": {"enum": ['" ::= | ( ) { } [ ]', "\\", '\\"', "\n", "\x00", "]", "root ::= x"]},
    "names with signs": {"properties": {'"\\]{}\n': {"type": "null"}}, "required": ['"\\]{}\n']},
    "a slow pattern": {"type": "string", "pattern": "^((a+)+)+$"},
    "wrong types": {"type": 3, "properties": [1], "required": "abc", "items": 7, "enum": {}, "anyOf": 1},
    "nothing": {"not": {}},
}  # fmt: skip


def test_no_schema_ends_the_process() -> None:
    require("smollm2")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)  # to write what is nested so deep
    try:
        lines = "".join(json.dumps(schema) + "\n" for schema in SCHEMAS.values())
    finally:
        sys.setrecursionlimit(limit)

    ran = subprocess.run(
        [sys.executable, "-c", ASK], input=lines, capture_output=True, text=True, timeout=300, check=False
    )

    outcomes = ran.stdout.splitlines()
    assert len(outcomes) == len(SCHEMAS), (
        f"it ended at {list(SCHEMAS)[len(outcomes)]!r}: {ran.stderr[-2000:]}"
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stderr == ""
    assert "refused llm_error" not in outcomes, "the native code takes what it gets, and does not crash"
    refused = {name for name, outcome in zip(SCHEMAS, outcomes, strict=True) if outcome.startswith("refused")}
    assert refused >= {
        "itself",
        "round in a circle",
        "nested objects",
        "many values",
        "a file",
        "chained references",
    }


@pytest.mark.parametrize("depth", [1, 39, 41, 5_000])
def test_depth_is_counted_wherever_the_caller_stands(depth: int) -> None:
    from weft.llm.errors import ModelError
    from weft.llm.local.grammar import MAX_DEPTH, grammar_of

    schema = _deep(depth, lambda inner: {"type": "array", "items": inner})
    if depth <= MAX_DEPTH:
        assert grammar_of(schema)
    else:
        with pytest.raises(ModelError, match="deep"):
            grammar_of(schema)
