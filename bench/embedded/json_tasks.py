"""Forty short tasks with a JSON Schema each: whatever a model thinks, its answer must parse and fit."""

from typing import Any, NamedTuple


class JsonTask(NamedTuple):
    """A prompt and the schema of its answer."""

    prompt: str
    schema: dict[str, Any]


def _object(_required: bool = True, /, **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(properties)} if _required else schema


def _text(most: int = 40, **more: Any) -> dict[str, Any]:
    return {"type": "string", "maxLength": most, **more}


def _list(items: dict[str, Any], most: int = 3, least: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most, **more}


_WHOLE = {"type": "integer"}
_SHARE = {"type": "number", "minimum": 0, "maximum": 1}
_TRUTH = {"type": "boolean"}

JSON_TASKS = (
    JsonTask("Is water wet?", _TRUTH),
    JsonTask("How many legs has a spider?", {"type": "integer", "minimum": 0, "maximum": 100}),
    JsonTask("Give a probability of rain.", _SHARE),
    JsonTask("Name a colour.", {"enum": ["red", "green", "blue"]}),
    JsonTask("Name a city.", _text(20, minLength=3)),
    JsonTask("List fruits.", _list(_text(12), 4, 2)),
    JsonTask("List even numbers.", _list(_WHOLE, 5, 1)),
    JsonTask("Which of these are animals?", _list({"enum": ["cat", "oak", "dog"]}, uniqueItems=True)),
    JsonTask(
        "Describe a person.", _object(name=_text(20), age={"type": "integer", "minimum": 0, "maximum": 130})
    ),
    JsonTask("Judge: 'I love it'.", _object(label={"enum": ["positive", "negative"]}, confidence=_SHARE)),
    JsonTask("Judge: 2 + 2 = 5.", _object(success=_TRUTH, feedback=_text(60))),
    JsonTask("Give a date.", {"type": "string", "format": "date"}),
    JsonTask("When is the meeting?", _object(at={"type": "string", "format": "date-time"})),
    JsonTask("Make an identifier.", {"type": "string", "format": "uuid"}),
    JsonTask("A temperature in Celsius.", {"type": "number", "minimum": -50, "maximum": 60}),
    JsonTask("A rating.", {"type": "integer", "minimum": 1, "maximum": 5}),
    JsonTask("A negative number.", {"type": "integer", "exclusiveMaximum": 0, "minimum": -1000}),
    JsonTask("A number above zero.", {"type": "number", "exclusiveMinimum": 0, "maximum": 10}),
    JsonTask("A point.", _object(x={"type": "number"}, y={"type": "number"})),
    JsonTask(
        "A pair of name and number.",
        {
            "type": "array",
            "prefixItems": [_text(10), _WHOLE],
            "items": False,
            "minItems": 2,
        },
    ),
    JsonTask("Nothing, or a number.", {"type": ["null", "integer"]}),
    JsonTask(
        "A shape.",
        {
            "anyOf": [
                _object(kind={"const": "circle"}, radius={"type": "number", "minimum": 0}),
                _object(kind={"const": "square"}, side={"type": "number", "minimum": 0}),
            ]
        },
    ),
    JsonTask("A reply or an error.", {"oneOf": [_object(reply=_text(30)), _object(error=_text(30))]}),
    JsonTask("Ages by name.", {"type": "object", "additionalProperties": _WHOLE, "maxProperties": 3}),
    JsonTask("Some settings.", _object(False, debug=_TRUTH, level=_WHOLE, name=_text(10))),
    JsonTask("A book.", _object(title=_text(40), author=_object(first=_text(12), last=_text(12)))),
    JsonTask(
        "An order.",
        _object(
            items=_list(_object(name=_text(12), count={"type": "integer", "minimum": 1, "maximum": 9}), 2, 1),
            paid=_TRUTH,
        ),
    ),
    JsonTask(
        "A tree.",
        {
            "$defs": {
                "node": _object(value=_WHOLE, children=_list({"$ref": "#/$defs/leaf"}, 2)),
                "leaf": _object(value=_WHOLE),
            },
            "$ref": "#/$defs/node",
        },
    ),
    JsonTask(
        "A named thing with a size.",
        {
            "allOf": [
                {"type": "object", "properties": {"name": _text(12)}, "required": ["name"]},
                {"type": "object", "properties": {"size": _WHOLE}, "required": ["size"]},
            ]
        },
    ),
    JsonTask("A matrix.", _list(_list({"type": "integer", "minimum": 0, "maximum": 9}, 2, 2), 2, 2)),
    JsonTask("Truths.", _list(_TRUTH, 3, 3)),
    JsonTask("A quoted word.", _object(**{'a "key" with \\ signs': _text(10)})),
    JsonTask("Grüße auf Deutsch.", _object(gruß=_text(20))),
    JsonTask("A fixed answer.", {"const": {"ok": True, "items": [1, "two", None]}}),
    JsonTask("One of several values.", {"enum": [1, "one", None, True, [1], {"a": 1}]}),
    JsonTask(
        "Next action.",
        _object(
            action={"enum": ["stop", "go", "wait"]}, seconds={"type": "integer", "minimum": 0, "maximum": 60}
        ),
    ),
    JsonTask(
        "A log line.",
        _object(
            level={"enum": ["info", "warning", "error"]},
            code={"type": ["integer", "null"]},
            message=_text(40),
        ),
    ),
    JsonTask("Which file?", _object(path={"enum": ["src/a.py", "src/b.py", "README.md"]}, why=_text(50))),
    JsonTask("A plan.", _object(steps=_list(_text(25), 3, 1), done=_TRUTH)),
    JsonTask(
        "A price.",
        _object(amount={"type": "number", "minimum": 0, "maximum": 999}, currency={"enum": ["EUR", "USD"]}),
    ),
)
