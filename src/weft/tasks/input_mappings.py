"""`params.input_mappings`: inputs that are filled from the results of dependencies when a task starts.

`{"param": "<dependency id>.path.to.field"}` takes one field; a number in the path is an index of a list;
without a path the whole result is taken.
"""

from collections.abc import Mapping
from typing import Any

from weft.errors import RequestError
from weft.ids import TaskId
from weft.tasks.problems import Problem, joined, shown
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
