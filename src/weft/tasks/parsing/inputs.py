"""Validation of `inputs` against their schema, and mapping of results of dependencies to inputs.

A mapping `{"param": "<dependency id>.path.to.field"}` selects one field. A number in the path is a list
index. Without a path, the whole result is used.
"""

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec

from weft.errors import RequestError
from weft.ids import TaskId
from weft.secrets.references import masked
from weft.secrets.truncation import cut
from weft.tasks.parsing.problems import Problem, joined, problem_at, shown
from weft.tasks.record import JsonObject, Task


class MissingMapping(RequestError):
    """An input mapping refers to a value that the result of the dependency does not have."""

    code = "missing-mapping"

    def __init__(self, *, parameter: str, source: str, reason: str) -> None:
        super().__init__(f"input {parameter!r} cannot be filled from {source!r}: {reason}")
        self.parameter = parameter
        self.source = source


def mapped_inputs(task: Task, results: Mapping[TaskId, JsonObject]) -> JsonObject:
    """Return the task's inputs with its mappings filled in from the results of its dependencies."""
    mappings = _mappings(task)
    if not mappings:
        return task.inputs
    return {**task.inputs, **{name: _value(name, source, results) for name, source in mappings.items()}}


def has_mappings(task: Task) -> bool:
    """Return whether some of the task's inputs are mapped from dependencies."""
    return bool(_mappings(task))


def mapped_names(task: Task) -> tuple[str, ...]:
    """Return the names of mapped inputs; empty if the mappings are malformed."""
    mappings = _mappings(task)
    return tuple(mappings) if isinstance(mappings, dict) else ()


def mapping_problems(task: Task, *, path: str = "") -> list[Problem]:
    """Return a problem for each mapping that is malformed or does not start with the id of a dependency."""
    mappings = _mappings(task)
    where = "params.input_mappings"
    if not isinstance(mappings, dict):
        return [
            problem_at(path, where, "input_mappings must be an object", "an object", mappings, field="params")
        ]
    known = {dependency.id for dependency in task.dependencies}
    problems = []
    for name, source in mappings.items():
        start = source.partition(".")[0].lower() if isinstance(source, str) else None
        if start not in known:
            reason = (
                f"input {name!r} is mapped from {shown(source)!r}, "
                "which does not start with the id of a dependency"
            )
            problems.append(
                problem_at(path, f"{where}.{name}", reason, '"<dependency id>.path"', source, field="params")
            )
    return problems


def _mappings(task: Task) -> Any:
    given = (task.params or {}).get("input_mappings")
    return {} if given is None else given


def _value(parameter: str, source: str, results: Mapping[TaskId, JsonObject]) -> Any:
    start, _, path = source.partition(".")
    value: Any = results.get(TaskId(start.lower()))
    if value is None:
        raise MissingMapping(parameter=parameter, source=source, reason="that dependency has no result")
    return value_at(value, path, parameter=parameter, source=source)


def value_at(value: Any, path: str, *, parameter: str, source: str) -> Any:
    """Return the value at a path of fields and indexes. Raise MissingMapping if it does not exist."""
    for part in path.split(".") if path else ():
        value = _field_or_item(value, part, parameter, source)
    return value


def is_index(part: str) -> bool:
    """Return whether a part of a path can be a list index."""
    return part.isascii() and part.isdigit()


def _field_or_item(value: Any, part: str, parameter: str, source: str) -> Any:
    if isinstance(value, dict) and part in value:
        return value[part]
    if isinstance(value, list) and is_index(part) and int(part) < len(value):
        return value[int(part)]
    kind = "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else "a scalar"
    raise MissingMapping(parameter=parameter, source=source, reason=f"there is no {part!r} in {kind}")


_SCHEMA_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE_SCHEMAS = ("if", "then", "else", "not")
_VALUE_FREE = frozenset(
    {"required", "type", "title", "description", "$comment", *_SCHEMA_LISTS, *_SINGLE_SCHEMAS}
)
"""Keywords that do not constrain the values of properties, except through nested schemas."""

_DECIDABLE = frozenset(
    {"type", "properties", "patternProperties", "additionalProperties", "propertyNames", "required"}
)
"""Keywords that constrain each input separately, or only its presence: other inputs may be unknown."""


def input_problems(task: Task, *, path: str = "", is_stored: bool = False) -> list[Problem]:
    """Return all violations of the task's input schema, or why that schema is invalid.

    With `is_stored`, values that are not known yet are not checked: inputs that refer to secrets or are
    mapped from dependencies. They are checked when the task runs.
    """
    schema = (task.schemas or {}).get("input_schema")
    if schema is None:
        return []
    try:
        validator = validator_for(msgspec.json.encode(schema))
    except (ValueError, RecursionError, jsonschema_rs.ReferencingError) as error:
        return [_bad_schema(schema, error, path)]
    where = joined(path, "inputs")
    try:
        if is_stored:
            return known_problems(validator, schema, task.inputs, where, mapped_names(task))
        return list(problems_of(validator, task.inputs, where))
    except ValueError as error:  # nested too deeply for the validator
        reason = f"cannot be checked against input_schema: {error}"
        return [problem_at(path, "inputs", reason, "inputs with less nesting", task.inputs)]


def known_problems(
    validator: jsonschema_rs.Draft7Validator,
    schema: JsonObject,
    inputs: JsonObject,
    path: str,
    later: Collection[str] = (),
) -> list[Problem]:
    """Return all violations of the schema by the known parts of the inputs.

    Secrets and the inputs in `later`, which are set when the task runs, are not known. Constraints that
    depend on them are not checked.
    """
    given, secrets = masked(inputs)
    if not later:
        return list(problems_of(validator, given, path, secrets))
    is_conditional = _is_conditional(schema, later)

    def is_known(error: jsonschema_rs.ValidationError) -> bool:
        if error.instance_path and error.instance_path[0] in later:
            return False
        return not is_conditional or bool(error.schema_path and error.schema_path[0] in _DECIDABLE)

    return list(problems_of(validator, {**given, **dict.fromkeys(later)}, path, secrets, is_counted=is_known))


def _is_conditional(schema: JsonObject, later: Collection[str]) -> bool:
    """Return whether the value of an unknown input may decide which values of other inputs are valid."""
    if not {"$ref", "enum", "const", "dependencies"}.isdisjoint(schema):
        return True
    return any(_constrains(part, later) for part in _alternatives(schema))


def _alternatives(schema: JsonObject) -> list[Any]:
    """Return the schemas that a schema applies to the same object."""
    listed = [part for keyword in _SCHEMA_LISTS for part in schema.get(keyword, ())]
    return listed + [schema[keyword] for keyword in _SINGLE_SCHEMAS if keyword in schema]


def _constrains(schema: Any, names: Collection[str]) -> bool:
    """Return whether a schema may constrain the values of these properties, not only their presence."""
    if not isinstance(schema, dict):
        return False
    if not schema.keys() <= _VALUE_FREE | {"properties"} or not set(names).isdisjoint(
        schema.get("properties", ())
    ):
        return True
    return any(_constrains(part, names) for part in _alternatives(schema))


@lru_cache(maxsize=256)
def validator_for(schema: bytes) -> jsonschema_rs.Draft7Validator:
    """Return the validator of a JSON text with a draft-07 schema. Raise ValueError if it is invalid.

    `offline=True` because the library otherwise fetches remote and `file:` references. The linear-time
    regular expressions are not used, because draft-07 patterns may use lookahead; the backtracking limit
    bounds them.
    """
    return jsonschema_rs.Draft7Validator(
        msgspec.json.decode(schema),
        validate_formats=True,
        formats={"uuid": _is_uuid},
        offline=True,
        pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000),
    )


def _is_uuid(text: str) -> bool:
    try:
        return len(text) == 36 and str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def problems_of(
    validator: jsonschema_rs.Draft7Validator,
    inputs: JsonObject,
    path: str,
    unknown: Collection[tuple[str | int, ...]] = (),
    *,
    is_counted: Callable[[jsonschema_rs.ValidationError], bool] = lambda error: True,
) -> Iterator[Problem]:
    """Yield the violations of the validator's schema for which `is_counted`, not at paths in `unknown`."""
    for error in validator.iter_errors(inputs):
        if tuple(error.instance_path) in unknown or not is_counted(error):
            continue
        where = path
        for part in error.instance_path:
            where = joined(where, part)
        kind = error.kind
        yield Problem(
            field="inputs",
            reason=cut(error.message, 400),
            expected={kind.name: shown(_plain(getattr(kind, "value", None)))},
            actual=shown(error.instance),
            path=where,
        )


def _plain(value: Any) -> Any:
    """Return the value with nested errors (anyOf, oneOf, propertyNames) replaced by their messages."""
    if isinstance(value, jsonschema_rs.ValidationError):
        return value.message
    return [_plain(part) for part in value] if isinstance(value, list) else value


def _bad_schema(schema: JsonObject, error: Exception, path: str) -> Problem:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    reason = f"input_schema is not a usable JSON Schema: {reason}"
    expected = "JSON Schema draft-07 without remote references"
    return problem_at(path, "schemas.input_schema", reason, expected, schema, field="schemas")
