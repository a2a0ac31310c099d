"""Check a workflow before it runs, and report all problems at once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from weft.errors import RequestError
from weft.ids import ANY_ID, TaskId
from weft.limits import MAX_SUGGESTIONS
from weft.tasks.flow import find_cycles
from weft.tasks.parsing.inputs import MissingMapping, input_problems, is_index, value_at
from weft.tasks.parsing.problems import Problem, SeveralProblems, is_json, joined, nearest, shown
from weft.tasks.parsing.rules import checked_task
from weft.tasks.record import JsonObject, Status, Task
from weft.workflows.model import Source, WorkflowStepDefinition
from weft.workflows.task_interfaces import TaskInterface, TaskInterfaces

_COMBINING_KEYWORDS = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "not"})
"""Keywords through which a schema may define fields outside of its `properties`."""

_ANY_VALUE: JsonObject = {}


class NoSuchField(Exception):
    """A path leads to a field that no value of the schema has."""


def schema_at(schema: JsonObject, parts: Iterable[str]) -> JsonObject:
    """Return the schema at the end of a path, `{}` if it is unknown; raise NoSuchField."""
    for part in parts:
        if not _COMBINING_KEYWORDS.isdisjoint(schema):
            return _ANY_VALUE
        schema = _field_schema(schema, part)
    return schema


def types_of(schema: JsonObject) -> frozenset[str] | None:
    """Return the JSON types that a schema allows; None if it does not restrict them."""
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema and "type" not in schema:
            each = [types_of(_schema(part)) for part in schema[keyword]]
            return None if None in each else frozenset().union(*(part for part in each if part))
    found: Any = schema.get("type")
    if found is None:
        return None
    types = frozenset([found] if isinstance(found, str) else found)
    # An integer is a number, and a number may be an integer.
    return types | {"integer", "number"} if types & {"integer", "number"} else types


def _field_schema(schema: JsonObject, part: str) -> JsonObject:
    types = types_of(schema)
    if types is not None and types.isdisjoint({"object", "array"}):
        raise NoSuchField(f"a value of type {' or '.join(sorted(types))} has no field {part!r}")
    fields: JsonObject = schema.get("properties", {})
    if part in fields:
        return _schema(fields[part])
    if types == frozenset({"array"}):
        if not is_index(part):
            raise NoSuchField(f"{part!r} is not a list index")
        return _schema(schema.get("items"))
    is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    if types == frozenset({"object"}) and is_closed:
        known = f"; it has {', '.join(fields)}" if fields else "; it has no fields"
        raise NoSuchField(f"there is no field {part!r}{nearest(part, fields) or known}")
    return _ANY_VALUE


def _schema(found: Any) -> JsonObject:
    return found if isinstance(found, dict) else _ANY_VALUE


class InvalidWorkflow(SeveralProblems):
    """One or more steps of a workflow are invalid."""

    code = "invalid-workflow"


class CheckedWorkflow:
    """The steps of a workflow with the interfaces of their tasks, and the problems found in them."""

    def __init__(
        self,
        name: str,
        steps: Sequence[WorkflowStepDefinition],
        context: Mapping[str, Any],
        tasks: TaskInterfaces,
    ) -> None:
        self.name = name
        self.context = context
        self.problems: list[Problem] = list(_workflow_problems(name, steps, context))
        self.steps: dict[str, WorkflowStepDefinition] = {}
        self._interfaces: dict[str, TaskInterface] = {}
        self._paths: dict[str, str] = {}
        self._suggestions_left = MAX_SUGGESTIONS
        well_typed = list(self._well_typed(steps))
        for path, step in well_typed:
            self._register(step, path, tasks)
        for path, step in well_typed:
            self.problems += self._step_problems(step, path)
        self.problems += self._cycle_problems()

    def record_of(self, step: WorkflowStepDefinition) -> JsonObject:
        """Return the record of a valid step, for the flow document."""
        # Values of the initial context become inputs of the steps that use them, not a record to depend on.
        # So they are checked against the task's schema before anything runs, may refer to secrets, and a
        # step's result can be reused unless a value that the step itself uses has changed.
        interface = self._interfaces[step.task_name]
        known: JsonObject = {}
        mappings: JsonObject = {}
        for source in step.sources():
            if source.name in self.context:
                known[source.parameter] = self._context_value(source)
            else:
                mappings[source.parameter] = source.text
        params = {**step.params, **interface.params} | ({"input_mappings": mappings} if mappings else {})
        return {
            "name": step.output_name,
            "schemas": {"method": interface.method},
            "inputs": {**step.static_inputs, **known},
            **({"params": params} if params else {}),
            "dependencies": self.dependencies_of(step),
        }

    def dependencies_of(self, step: WorkflowStepDefinition) -> list[str]:
        """Return the output names of the steps whose results a step uses, each once."""
        return list(dict.fromkeys(source.name for source in step.sources() if source.name in self.steps))

    def _well_typed(
        self, steps: Sequence[WorkflowStepDefinition]
    ) -> Iterator[tuple[str, WorkflowStepDefinition]]:
        for index, step in enumerate(steps):
            path = joined("steps", index)
            problem = _shape_problem(step, path)
            if problem is None:
                yield path, step
            else:
                self.problems.append(problem)

    def _register(self, step: WorkflowStepDefinition, path: str, tasks: TaskInterfaces) -> None:
        """Register a step and its task's interface; of two steps with one name the first counts."""
        self.problems += self._name_problems(step, path)
        try:
            if step.task_name not in self._interfaces:
                self._interfaces[step.task_name] = tasks.interface_of(step.task_name)
        except RequestError as error:
            self.problems.append(
                _problem("task_name", error.message, "the name of a task", step.task_name, path)
            )
        self.steps.setdefault(step.output_name, step)
        self._paths.setdefault(step.output_name, path)

    def _name_problems(self, step: WorkflowStepDefinition, path: str) -> Iterator[Problem]:
        name = step.output_name
        reason = None
        if name in self._paths:
            reason = f"is also the output name of {self._paths[name]}"
        elif name in self.context:
            reason = "is also a name in the initial context"
        elif name == self.name:
            reason = "is also the name of the workflow; their records could not be distinguished"
        elif "." in name:
            reason = "contains a dot, which starts the path to a field in mappings"
        if reason is not None:
            yield _problem("output_name", reason, "a unique name without dots", name, path)

    def _step_problems(self, step: WorkflowStepDefinition, path: str) -> Iterator[Problem]:
        known = dict(step.static_inputs)
        later = {}
        for source in step.sources():
            reason = self._source_reason(source, step)
            if reason is not None:
                where = joined(path, "dynamic_input_mappings")
                yield _problem(source.parameter, reason, '"<source>.field.subfield"', source.text, where)
            if reason is None and source.name in self.context:
                known[source.parameter] = self._context_value(source)
            else:
                later[source.parameter] = source.text
        yield from _record_problems(step, path)
        if is_json(known):  # values that are not JSON were reported at their source
            yield from self._input_problems(step, known, later, path)

    def _source_reason(self, source: Source, step: WorkflowStepDefinition) -> str | None:
        """Return why an input cannot come from its source; None if it can, as far as is known."""
        if source.parameter in step.static_inputs:
            return f"input {source.parameter!r} is also a static input"
        if source.name in self.steps:
            return self._field_reason(source, step)
        if source.name in self.context:
            return self._context_reason(source)
        reason = f"no step or value of the initial context has the name {shown(source.name)!r}"
        self._suggestions_left -= 1
        if self._suggestions_left < 0:
            return reason
        return reason + nearest(source.name, [*self.steps, *self.context])

    def _field_reason(self, source: Source, step: WorkflowStepDefinition) -> str | None:
        """Return why the output schema of the source does not match the input schema of the step, or None."""
        if "" in _parts(source):
            return f"the path {shown(source.path)!r} has an empty part"
        producer = self._interfaces.get(self.steps[source.name].task_name)
        consumer = self._interfaces.get(step.task_name)
        if producer is None or producer.output_schema is None:
            return None
        try:
            given = types_of(schema_at(producer.output_schema, _parts(source)))
        except NoSuchField as error:
            return f"{shown(source.text)!r} does not match the result of {producer.method!r}: {error}"
        properties = (consumer.input_schema or {}).get("properties", {}) if consumer is not None else {}
        wanted = properties.get(source.parameter)
        taken = types_of(wanted) if isinstance(wanted, dict) else None
        if given is None or taken is None or given & taken:
            return None
        return f"{shown(source.text)!r} is {' or '.join(sorted(given))}, not {' or '.join(sorted(taken))}"

    def _context_reason(self, source: Source) -> str | None:
        try:
            self._context_value(source)
        except MissingMapping as error:
            return error.message
        return None

    def _context_value(self, source: Source) -> Any:
        value = self.context[source.name]
        return value_at(value, source.path, parameter=source.parameter, source=source.text)

    def _input_problems(
        self, step: WorkflowStepDefinition, known: JsonObject, later: JsonObject, path: str
    ) -> list[Problem]:
        interface = self._interfaces.get(step.task_name)
        if interface is None or interface.input_schema is None:
            return []
        record = Task(
            id=ANY_ID,
            name=step.output_name,
            status=Status.PENDING,
            inputs=known,
            schemas={"method": interface.method, "input_schema": interface.input_schema},
            params={"input_mappings": later},
        )
        return input_problems(record, path=path, is_stored=True)

    def _cycle_problems(self) -> Iterator[Problem]:
        edges = {
            TaskId(name): [TaskId(source) for source in self.dependencies_of(step)]
            for name, step in self.steps.items()
        }
        for cycle in find_cycles(edges):
            labels = [str(shown(name)) for name in (*cycle, cycle[0])]
            reason = f"steps use each other in a cycle: {' -> '.join(labels)}"
            yield _problem("dynamic_input_mappings", reason, "no cycle", list(cycle), self._paths[cycle[0]])


def _workflow_problems(
    name: str, steps: Sequence[WorkflowStepDefinition], context: Mapping[str, Any]
) -> Iterator[Problem]:
    _, found = checked_task({"id": ANY_ID, "name": name, "status": "pending"})
    yield from found
    if not steps:
        reason = "a workflow needs a step; `step` returns a new workflow and does not change this one"
        yield _problem("steps", reason, "one step or more", [], "")
    for key, value in context.items():
        if not is_json(value):
            yield _problem(key, "is not a JSON value", "a JSON value", value, "context")
        if "." in key:
            reason = "contains a dot, which starts the path to a field in mappings"
            yield _problem(key, reason, "a name without dots", key, "context")


def _shape_problem(step: WorkflowStepDefinition, path: str) -> Problem | None:
    """Return the problem of a step with fields of wrong types, which Python does not check; None if valid."""
    try:
        msgspec.convert(msgspec.structs.asdict(step), WorkflowStepDefinition)
    except (msgspec.ValidationError, TypeError, UnicodeEncodeError) as error:
        return Problem("steps", str(error), "a step", shown(step), path)
    return None


def _record_problems(step: WorkflowStepDefinition, path: str) -> Iterator[Problem]:
    """Yield the problems of the step's record, with field names of the step."""
    if "input_mappings" in step.params:
        reason = "input_mappings are made from dynamic_input_mappings"
        yield _problem("params", reason, "dynamic_input_mappings", step.params["input_mappings"], path)
    params = {key: value for key, value in step.params.items() if key != "input_mappings"}
    raw = {"id": ANY_ID, "name": step.output_name, "status": "pending"}
    _, found = checked_task({**raw, "inputs": step.static_inputs, "params": params}, path=path)
    for problem in found:
        is_name = problem.field == "name"
        yield replace(problem, field="output_name", path=joined(path, "output_name")) if is_name else problem


def _parts(source: Source) -> list[str]:
    return source.path.split(".") if "." in source.text else []


def _problem(field: str, reason: str, expected: object, actual: object, path: str) -> Problem:
    return Problem(field, reason, expected, shown(actual), joined(path, field))
