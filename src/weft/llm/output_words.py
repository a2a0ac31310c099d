"""What a model is told of the output format, where nothing holds it to it."""

import json
from typing import Any

from weft.evaluator.effects import ModelCall
from weft.llm.protocol import Features

_JSON = "Answer with one JSON value and nothing else: no words before or after it, no code fence."


def output_schema(call: ModelCall) -> dict[str, Any] | None:
    """The JSON Schema of the payload: None for text, `{}` for JSON of any shape."""
    if call.output_format is None or call.output_format.type != "json":
        return None
    schema = call.output_schema
    if isinstance(schema, dict):
        return schema
    return {"not": {}} if schema is False else {}


def output_words(schema: dict[str, Any] | None, features: Features) -> str:
    """The words of the system prompt that ask for JSON; none where the model is held to it."""
    return "" if schema is None or features.output == "held" else json_words(schema)


def json_words(schema: dict[str, Any]) -> str:
    """The words that ask for JSON that fits a schema; `{}` is JSON of any shape."""
    if not schema:
        return _JSON
    return f"{_JSON} It must fit this JSON Schema:\n{json.dumps(schema, ensure_ascii=False)}"


def repair_words(error: str) -> str:
    """What is said to a model whose answer does not fit."""
    return (
        f"Your answer does not fit the format that was asked for: {error}\n"
        "Answer once more, in that format, with nothing else."
    )
