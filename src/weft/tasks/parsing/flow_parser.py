"""Parsing of a JSON document into a flow: a list of tasks, the nested `{task, children}` form, or one task.

Ids are optional; dependencies and parents may be given by name. All problems are reported together.
"""

from datetime import datetime
from typing import Any

import msgspec

from weft.gc_tuning import pause_collector
from weft.ids import ANY_ID, NewTaskId, TaskId, is_task_id
from weft.limits import MAX_NAME_CHARACTERS, MAX_SUGGESTIONS
from weft.tasks.flow import Flow
from weft.tasks.parsing.problems import InvalidTasks, Problem, joined, nearest, problem_at, shown
from weft.tasks.parsing.rules import Node, checked_task, flow_problems
from weft.tasks.program_params import folder_problems
from weft.tasks.record import JsonObject, Task, evolve
from weft.tasks.schedules.schedule import planned

_NODE_KEYS = ("task", "children")


class Draft(msgspec.Struct):
    """A task of the document that is not a record yet: its references are resolved in `raw`."""

    path: str
    raw: JsonObject
    parent: "Draft | None" = None
    is_nested: bool = False
    parent_id: TaskId | None = None
    """The parent that the flow rules use, even if `parent_id` in the document is invalid."""


@pause_collector()
def read_flow(document: Any, *, new_id: NewTaskId, now: datetime, user_id: str | None = None) -> Flow:
    """Return the flow that a JSON document describes. Raise InvalidTasks with all problems found.

    `user_id` is the owner for whom it is read: it is set on tasks without an owner, and tasks of other
    owners are rejected.
    """
    drafts, problems = flatten(document)
    if not drafts:
        expected = "a list of tasks or a task tree"
        empty = Problem("task", "a flow has at least one task", expected, shown(document), "")
        raise InvalidTasks(problems or [empty])
    reader = _Reader(drafts, new_id=new_id, now=now, user_id=user_id)
    tasks = reader.read()
    problems += reader.problems
    if problems:
        raise InvalidTasks(problems)
    return Flow(planned(task, after=now) for task in _with_auxiliary_fields(tasks))


def flatten(document: Any) -> tuple[list[Draft], list[Problem]]:
    """Return the tasks of a document, parents before children; and a problem for each invalid entry."""
    if isinstance(document, dict) and ("task" in document or "children" in document):
        return _flatten_nested(document)
    entries = document if isinstance(document, list) else [document]
    drafts: list[Draft] = []
    problems: list[Problem] = []
    for index, raw in enumerate(entries):
        path = f"[{index}]" if isinstance(document, list) else ""
        if isinstance(raw, dict):
            drafts.append(Draft(path, raw.copy()))
        else:
            problems.append(Problem("task", "a task must be an object", "an object", shown(raw), path))
    return drafts, problems


def _flatten_nested(document: JsonObject) -> tuple[list[Draft], list[Problem]]:
    drafts: list[Draft] = []
    problems: list[Problem] = []
    stack: list[tuple[Any, str, Draft | None]] = [(document, "", None)]
    while stack:
        node, path, parent = stack.pop()
        raw = node.get("task") if isinstance(node, dict) else None
        children = node.get("children") if isinstance(node, dict) else None
        children = [] if children is None else children
        if not isinstance(raw, dict) or not isinstance(children, list):
            expected = '{"task": {...}, "children": [...]}'
            problems.append(Problem("task", "not a node of a task tree", expected, shown(node), path))
            continue
        problems += [
            Problem(
                shown(key),
                f"unknown field '{shown(key)}' in a node of a task tree{nearest(str(key), _NODE_KEYS)}",
                "task, children",
                shown(key),
                joined(path, shown(key)),
            )
            for key in node
            if key not in _NODE_KEYS
        ]
        draft = Draft(joined(path, "task"), raw.copy(), parent, is_nested=True)
        drafts.append(draft)
        under = joined(path, "children")
        stack.extend(
            (child, joined(under, index), draft) for index, child in reversed(list(enumerate(children)))
        )
    return drafts, problems


class _Reader:
    """Resolves references between drafts, then parses and checks each."""

    def __init__(self, drafts: list[Draft], *, new_id: NewTaskId, now: datetime, user_id: str | None) -> None:
        self.drafts = drafts
        self.now = now.isoformat()
        self.user_id = user_id
        self.problems: list[Problem] = []
        self.known: set[str] = set()
        self.by_name: dict[str, TaskId] = {}
        self.ambiguous: set[str] = set()
        self.suggestions_left = MAX_SUGGESTIONS
        self._index(new_id)

    def read(self) -> list[Task]:
        """Return the tasks that could be parsed, and add all problems to `problems`."""
        self._fill_owner()
        self._place_in_tree()
        nodes: list[Node] = []
        tasks: list[Task] = []
        for draft in self.drafts:
            dependencies = self._resolve_dependencies(draft)
            self._resolve_mappings(draft)
            self._fill_defaults(draft)
            task, problems = checked_task(draft.raw, path=draft.path)
            self.problems += problems
            if "params" in draft.raw:
                self.problems += folder_problems(draft.raw["params"], path=draft.path)
            if task is not None:
                tasks.append(task)
            nodes.append(_node(draft, dependencies))
        self.problems += flow_problems(nodes)
        return tasks

    def _index(self, new_id: NewTaskId) -> None:
        for draft in self.drafts:
            raw = draft.raw
            if "id" not in raw:
                raw["id"] = new_id()
            elif isinstance(raw["id"], str):
                raw["id"] = raw["id"].lower()
            identifier, name = raw["id"], raw.get("name")
            if isinstance(identifier, str):
                self.known.add(identifier)
                if isinstance(name, str):
                    if name in self.by_name:
                        self.ambiguous.add(name)
                    self.by_name[name] = TaskId(identifier)

    def _fill_owner(self) -> None:
        """Set the owner of tasks without one to the caller, or else to the owner of the flow."""
        first = self.drafts[0].raw.get("user_id")
        for draft in self.drafts:
            if self.user_id is None:
                draft.raw.setdefault("user_id", first if isinstance(first, str) else None)
                continue
            given = draft.raw.get("user_id")
            if given is not None and given != self.user_id:
                reason = f"you act as {self.user_id!r} and cannot create tasks of another owner"
                self._report(draft, "user_id", reason, self.user_id, given)
            draft.raw["user_id"] = self.user_id

    def _place_in_tree(self) -> None:
        """Set the parent of every task.

        In a flat list, tasks without `parent_id` become children of the root: the task with
        `"parent_id": null`, or else the first without `parent_id`. A second explicit null is an
        error.
        """
        flat = [draft for draft in self.drafts if not draft.is_nested]
        explicit = (draft for draft in flat if draft.raw.get("parent_id", "") is None)
        silent = (draft for draft in flat if "parent_id" not in draft.raw)
        root = next(explicit, None) or next(silent, None) or self.drafts[0]
        for draft in self.drafts:
            self._place(draft, draft.parent or (None if draft is root else root))

    def _place(self, draft: Draft, above: Draft | None) -> None:
        """Set the parent that the draft names, or `above` if it names no valid parent."""
        given = draft.raw.get("parent_id")
        if draft.parent is None and "parent_id" in draft.raw and given is None:
            return
        if isinstance(given, str) and draft.parent is None:
            found = self._resolve(draft, "parent_id", given)
            if found is not None:
                draft.raw["parent_id"] = draft.parent_id = found
                return
        elif draft.parent is not None and "parent_id" in draft.raw:
            expected = draft.parent.raw["id"]
            if given is None or (isinstance(given, str) and given.lower() != expected):
                reason = "must be the id of the task it is nested in"
                self._report(draft, "parent_id", reason, shown(expected), given)
        draft.parent_id = None if above is None else TaskId(str(above.raw["id"]))
        if given is None or isinstance(given, str):  # another type is reported with the other fields
            draft.raw["parent_id"] = draft.parent_id if is_task_id(draft.parent_id) else None

    def _resolve_dependencies(self, draft: Draft) -> list[TaskId | None]:
        """Return the resolved ids, with None for invalid entries; rewrites the draft's dependencies."""
        given = draft.raw.get("dependencies")
        if not isinstance(given, list | tuple):
            return []
        resolved: list[TaskId | None] = []
        rewritten: list[Any] = []
        for index, entry in enumerate(given):
            reference = entry if isinstance(entry, str) else None
            other: JsonObject = {}
            if isinstance(entry, dict):
                other = {key: value for key, value in entry.items() if key not in {"id", "name"}}
                reference = entry.get("id", entry.get("name"))
                if "id" in entry and "name" in entry:
                    other["name"] = entry["name"]  # rejected later as an unknown field
            if not isinstance(reference, str):
                resolved.append(None)
                rewritten.append(entry)
                continue
            target = self._resolve(draft, "dependencies", reference, index)
            resolved.append(target)
            rewritten.append({"id": target or ANY_ID, **other})
        draft.raw["dependencies"] = rewritten
        return resolved

    def _resolve_mappings(self, draft: Draft) -> None:
        """Rewrite `params.input_mappings` that start with a name ("fetch.stdout") to start with the id."""
        params = draft.raw.get("params")
        mappings = params.get("input_mappings") if isinstance(params, dict) else None
        if not isinstance(params, dict) or not isinstance(mappings, dict):
            return
        resolved = {name: self._mapping_source(source) for name, source in mappings.items()}
        draft.raw["params"] = {**params, "input_mappings": resolved}

    def _mapping_source(self, source: Any) -> Any:
        """Return the source with a leading name (the shortest that matches) replaced by its id."""
        parts = source.split(".") if isinstance(source, str) else []
        name = ""
        for length, part in enumerate(parts, start=1):
            name = f"{name}.{part}" if length > 1 else part
            if len(name) > MAX_NAME_CHARACTERS:
                break
            if name in self.by_name and name not in self.ambiguous:
                return ".".join([self.by_name[name], *parts[length:]])
        return source

    def _resolve(self, draft: Draft, field: str, reference: str, index: int | None = None) -> TaskId | None:
        """Return the id for an id or a name; None, with a problem, if it is unknown or ambiguous."""
        lowered = reference.lower()
        if lowered in self.known:
            return TaskId(lowered)
        found = self.by_name.get(reference)
        is_ambiguous = reference in self.ambiguous
        if found is not None and not is_ambiguous:
            return found
        if found is None and is_task_id(reference):
            return TaskId(lowered)  # an unknown id is reported with the other rules of the flow
        where = field if index is None else joined(field, index)
        if is_ambiguous:
            reason = f"several tasks are named {shown(reference)!r}; use an id"
            self._report(draft, where, reason, "the id of a task of the same flow", reference)
        else:
            reason = f"no task of this flow is named {shown(reference)!r}{self._suggestion(reference)}"
            self._report(draft, where, reason, "the id or name of a task of the same flow", reference)
        return None

    def _suggestion(self, reference: str) -> str:
        self.suggestions_left -= 1
        return nearest(reference, self.by_name) if self.suggestions_left >= 0 else ""

    def _fill_defaults(self, draft: Draft) -> None:
        raw = draft.raw
        raw.setdefault("status", "pending")
        for name in ("created_at", "updated_at"):
            if raw.get(name) is None:
                raw[name] = self.now
        raw.setdefault("origin_type", "create")
        if raw["status"] == "completed":
            raw.setdefault("progress", 1.0)

    def _report(self, draft: Draft, where: str, reason: str, expected: object, actual: object) -> None:
        self.problems.append(problem_at(draft.path, where, reason, expected, actual))


def _node(draft: Draft, dependencies: list[TaskId | None]) -> Node:
    name, user_id = draft.raw.get("name"), draft.raw.get("user_id")
    return Node(
        id=TaskId(str(draft.raw["id"])),
        name=name if isinstance(name, str) else "?",
        parent_id=draft.parent_id,
        dependencies=dependencies,
        user_id=user_id if isinstance(user_id, str) else None,
        path=draft.path,
    )


def _with_auxiliary_fields(tasks: list[Task]) -> list[Task]:
    """Return the tasks with the auxiliary fields computed; values in the document are ignored."""
    root = next(task for task in tasks if task.parent_id is None)
    parents = {task.parent_id for task in tasks}
    return [
        evolve(task, task_tree_id=root.id, has_children=task.id in parents, has_references=False)
        for task in tasks
    ]
