"""Check `inputs` against their schema, and fill them from results of dependencies.

`{"param": "<dependency id>.path.to.field"}` takes one field; a number in the path is an index of a list;
without a path the whole result is taken.
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
from weft.tasks.parsing.problems import Problem, joined, shown
from weft.tasks.record import JsonObject, Task


class MissingMapping(RequestError):
    """An input mapping points at something its dependency's result does not have."""

    code = "missing-mapping"

    def __init__(self, *, parameter: str, source: str, reason: str) -> None:
        super().__init__(f"input {parameter!r} cannot be filled from {source!r}: {reason}")
        self.parameter = parameter
        self.source = source


def mapped_inputs(task: Task, results: Mapping[TaskId, JsonObject]) -> JsonObject:
    """The task's inputs with its mappings filled in from the results of its dependencies."""
    mappings = _mappings(task)
    if not mappings:
        return task.inputs
    return {**task.inputs, **{name: _value(name, source, results) for name, source in mappings.items()}}


def has_mappings(task: Task) -> bool:
    """Whether some of the task's inputs are filled from dependencies."""
    return bool(_mappings(task))


def mapped_names(task: Task) -> tuple[str, ...]:
    """The inputs that are filled from dependencies; none when what says so is malformed."""
    mappings = _mappings(task)
    return tuple(mappings) if isinstance(mappings, dict) else ()


def mapping_problems(task: Task, *, path: str = "") -> list[Problem]:
    """Mappings that are malformed or do not start at a dependency of the task."""
    mappings = _mappings(task)
    where = joined(joined(path, "params"), "input_mappings")
    if not isinstance(mappings, dict):
        return [Problem("params", "input_mappings must be an object", "an object", shown(mappings), where)]
    known = {dependency.id for dependency in task.dependencies}
    problems = []
    for name, source in mappings.items():
        start = source.partition(".")[0].lower() if isinstance(source, str) else None
        if start not in known:
            reason = f"input {name!r} is mapped from {shown(source)!r}, which starts with no dependency's id"
            problems.append(
                Problem("params", reason, '"<dependency id>.path"', shown(source), joined(where, name))
            )
    return problems


def _mappings(task: Task) -> Any:
    given = (task.params or {}).get("input_mappings")
    return {} if given is None else given


def _value(parameter: str, source: str, results: Mapping[TaskId, JsonObject]) -> Any:
    start, _, rest = source.partition(".")
    value: Any = results.get(TaskId(start.lower()))
    if value is None:
        raise MissingMapping(parameter=parameter, source=source, reason="that dependency has no result")
    return value_at(value, rest, parameter=parameter, source=source)


def value_at(value: Any, path: str, *, parameter: str, source: str) -> Any:
    """What lies at a path of fields and indexes in a value; raises MissingMapping when nothing does."""
    for part in path.split(".") if path else ():
        value = _step(value, part, parameter, source)
    return value


def is_index(part: str) -> bool:
    """Whether a part of a path can be an index of a list."""
    return part.isascii() and part.isdigit()


def _step(value: Any, part: str, parameter: str, source: str) -> Any:
    if isinstance(value, dict) and part in value:
        return value[part]
    if isinstance(value, list) and is_index(part) and int(part) < len(value):
        return value[int(part)]
    kind = "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else "no object"
    raise MissingMapping(parameter=parameter, source=source, reason=f"there is no {part!r} in {kind}")


_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLES = ("if", "then", "else", "not")
_VALUE_FREE = frozenset({"required", "type", "title", "description", "$comment", *_LISTS, *_SINGLES})
"""Keywords of an object that do not look at the values of its properties, or only through what is in them."""

_DECIDED = frozenset(
    {"type", "properties", "patternProperties", "additionalProperties", "propertyNames", "required"}
)
"""Keywords that judge each input by itself, or only whether it is there."""


def input_problems(task: Task, *, path: str = "", is_stored: bool = False) -> list[Problem]:
    """Every way in which the task's inputs break its input schema, or why that schema is none.

    Of stored inputs not all is known: those that refer to secrets or are mapped from the results of others
    are checked when the task runs.
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
    except ValueError as error:  # nested deeper than the validator goes
        reason = f"cannot be checked against input_schema: {error}"
        return [Problem("inputs", reason, "inputs of usual depth", shown(task.inputs), where)]


def known_problems(
    validator: jsonschema_rs.Draft7Validator,
    schema: JsonObject,
    inputs: JsonObject,
    path: str,
    later: Collection[str] = (),
) -> list[Problem]:
    """Every way in which what is known of the inputs breaks the schema.

    Not known are secrets and the values of those in `later`, which will be there when the task runs. What
    depends on such a value is not judged.
    """
    given, secrets = masked(inputs)
    if not later:
        return list(problems_of(validator, given, path, secrets))
    is_conditional = _is_conditional(schema, later)

    def is_known(error: jsonschema_rs.ValidationError) -> bool:
        if error.instance_path and error.instance_path[0] in later:
            return False
        return not is_conditional or bool(error.schema_path and error.schema_path[0] in _DECIDED)

    return list(problems_of(validator, {**given, **dict.fromkeys(later)}, path, secrets, is_counted=is_known))


def _is_conditional(schema: JsonObject, later: Collection[str]) -> bool:
    """Whether the value of an input that is not known yet may decide what the others may be."""
    if not {"$ref", "enum", "const", "dependencies"}.isdisjoint(schema):
        return True
    return any(_looks_at(part, later) for part in _alternatives(schema))


def _alternatives(schema: JsonObject) -> list[Any]:
    """The schemas that a schema applies to the same object."""
    listed = [part for keyword in _LISTS for part in schema.get(keyword, ())]
    return listed + [schema[keyword] for keyword in _SINGLES if keyword in schema]


def _looks_at(schema: Any, names: Collection[str]) -> bool:
    """Whether a schema of an object may judge the values of these properties, not only their being there."""
    if not isinstance(schema, dict):
        return False
    if not schema.keys() <= _VALUE_FREE | {"properties"} or not set(names).isdisjoint(
        schema.get("properties", ())
    ):
        return True
    return any(_looks_at(part, names) for part in _alternatives(schema))


@lru_cache(maxsize=256)
def validator_for(schema: bytes) -> jsonschema_rs.Draft7Validator:
    """The validator of a JSON text that is a draft-07 schema; raises ValueError when it is none.

    `offline=True` because the library otherwise fetches remote and `file:` references. The linear-time
    regular expressions are not used: draft-07 patterns may look ahead; the backtracking limit bounds them.
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
    """Every way in which the inputs, but for those at `unknown` places, break the schema of the validator."""
    for error in validator.iter_errors(inputs):
        if tuple(error.instance_path) in unknown or not is_counted(error):
            continue
        where = path
        for part in error.instance_path:
            where = joined(where, part)
        kind = error.kind
        yield Problem(
            field="inputs",
            reason=_reason(error.message),
            expected={kind.name: shown(_plain(getattr(kind, "value", None)))},
            actual=shown(error.instance),
            path=where,
        )


def _reason(message: str) -> str:
    return cut(message, 400)


def _plain(value: Any) -> Any:
    """The value with the errors of alternatives (anyOf, oneOf, propertyNames) as their messages."""
    if isinstance(value, jsonschema_rs.ValidationError):
        return value.message
    return [_plain(part) for part in value] if isinstance(value, list) else value


def _bad_schema(schema: JsonObject, error: Exception, path: str) -> Problem:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return Problem(
        field="schemas",
        reason=f"input_schema is not a usable JSON Schema: {reason}",
        expected="JSON Schema draft-07 without remote references",
        actual=shown(schema),
        path=joined(joined(path, "schemas"), "input_schema"),
    )
