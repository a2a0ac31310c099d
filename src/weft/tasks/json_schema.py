"""The JSON Schema (draft-07) of the task record, generated from the annotations of the record."""

from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from weft.tasks.record import JsonObject, Task

DRAFT_07 = "http://json-schema.org/draft-07/schema#"


@cache
def task_schema() -> JsonObject:
    """Return the schema of one task record."""
    definitions: JsonObject = {}
    task = _struct(inspect.type_info(Task), definitions)
    return {"$schema": DRAFT_07, "title": "weft task", **task, "definitions": definitions}


@cache
def flow_schema() -> JsonObject:
    """Return the schema of the input of `read_flow`: a list of tasks, the nested form, or one task.

    Only a name is required, and tasks may be referred to by name.
    """
    reference = {"type": "string", "minLength": 1, "description": "The id or the name of a task of the flow."}
    properties = {
        **task_schema()["properties"],
        "parent_id": {**reference, "type": ["string", "null"]},
        "dependencies": {"type": "array", "items": {"$ref": "#/definitions/dependency"}, "default": []},
    }
    required = {"type": "boolean", "default": True}
    dependency = {
        "anyOf": [
            reference,
            _object({"id": reference, "required": required}, needs=["id"]),
            _object({"name": reference, "required": required}, needs=["name"]),
        ]
    }
    children = {"type": "array", "items": {"$ref": "#/definitions/node"}, "default": []}
    return {
        "$schema": DRAFT_07,
        "title": "weft flow",
        "anyOf": [
            {"type": "array", "minItems": 1, "items": {"$ref": "#/definitions/task"}},
            {"$ref": "#/definitions/node"},
            {"$ref": "#/definitions/task"},
        ],
        "definitions": {
            "dependency": dependency,
            "task": _object(properties, needs=["name"]),
            "node": _object({"task": {"$ref": "#/definitions/task"}, "children": children}, needs=["task"]),
        },
    }


def _object(properties: JsonObject, *, needs: list[str]) -> JsonObject:
    return {"type": "object", "required": needs, "properties": properties, "additionalProperties": False}


def _struct(info: Any, definitions: JsonObject) -> JsonObject:
    properties: JsonObject = {}
    for field in info.fields:
        schema = _type(field.type, definitions)
        if field.default is not msgspec.NODEFAULT and field.default is not None:
            schema["default"] = list(field.default) if isinstance(field.default, tuple) else field.default
        elif field.default_factory is dict:
            schema["default"] = {}
        properties[field.name] = schema
    required = [field.name for field in info.fields if field.required]
    return _object(properties, needs=required)


def _type(info: Any, definitions: JsonObject) -> JsonObject:
    match info:
        case inspect.Metadata(type=inner, extra_json_schema=extra):
            return {**_type(inner, definitions), **(extra or {})}
        case inspect.UnionType(types=(inner, inspect.NoneType())):
            return _nullable(_type(inner, definitions))
        case inspect.StrType():
            bounds = {"minLength": info.min_length, "maxLength": info.max_length, "pattern": info.pattern}
            return {"type": "string"} | {key: bound for key, bound in bounds.items() if bound is not None}
        case inspect.IntType() | inspect.FloatType():
            kind = "integer" if isinstance(info, inspect.IntType) else "number"
            limits = {"minimum": info.ge, "maximum": info.le}
            return {"type": kind} | {key: limit for key, limit in limits.items() if limit is not None}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.EnumType(cls=cls):
            return {"type": "string", "enum": [member.value for member in cls]}
        case inspect.DateTimeType():
            return {"type": "string", "format": "date-time"}
        case inspect.DictType():
            return {"type": "object"}
        case inspect.VarTupleType(item_type=item):
            return {"type": "array", "items": _type(item, definitions)}
        case inspect.StructType(cls=cls):
            name = cls.__name__.lower()
            definitions[name] = _struct(info, definitions)
            return {"$ref": f"#/definitions/{name}"}
    raise TypeError(f"no JSON Schema for {info}")


def _nullable(schema: JsonObject) -> JsonObject:
    nullable = {**schema, "type": [schema["type"], "null"]}
    if "enum" in schema:
        nullable["enum"] = [*schema["enum"], None]
    return nullable
