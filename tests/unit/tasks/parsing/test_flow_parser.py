"""From a JSON document to a flow, or every problem of it."""

from typing import Any

import pytest

from tests.batches import batched
from tests.builders import NOON, a_chain, a_flow, named, numbered_ids
from weft.limits import MAX_SUGGESTIONS
from weft.tasks.flow import Flow
from weft.tasks.parsing.flow_parser import read_flow
from weft.tasks.parsing.problems import InvalidTasks, Problem, task_object
from weft.tasks.record import Origin, Status

UNKNOWN = "ffffffff-0000-4000-8000-000000000000"
ID_1, ID_2 = (f"bbbbbbbb-0000-4000-8000-00000000000{number}" for number in (1, 2))


def read(document: object, *, user_id: str | None = None) -> Flow:
    return read_flow(document, new_id=numbered_ids(), now=NOON, user_id=user_id)


def problems_of(document: object, *, user_id: str | None = None) -> list[Problem]:
    with pytest.raises(InvalidTasks) as caught:
        read(document, user_id=user_id)
    return list(caught.value.found)


def found(document: object, *, user_id: str | None = None) -> list[tuple[str, str]]:
    return [(problem.path, problem.reason) for problem in problems_of(document, user_id=user_id)]


def parents(flow: Flow) -> dict[str, str | None]:
    return {task.name: None if task.parent_id is None else flow[task.parent_id].name for task in flow}


def test_what_is_left_out_is_filled_in() -> None:
    (task,) = read({"name": "only"})

    assert task.id == numbered_ids()()
    assert (task.status, task.origin_type, task.progress) == (Status.PENDING, Origin.CREATE, 0.0)
    assert (task.created_at, task.updated_at) == (NOON, NOON)
    assert (task.task_tree_id, task.has_children, task.has_references) == (task.id, False, False)


def test_times_that_are_null_are_filled_in_like_times_left_out() -> None:
    (task,) = read({"name": "only", "created_at": None, "updated_at": None})

    assert (task.created_at, task.updated_at) == (NOON, NOON)


def test_a_completed_task_without_progress_is_all_done() -> None:
    (task,) = read({"name": "only", "status": "completed", "completed_at": "2025-01-15T12:00:00Z"})

    assert task.progress == 1.0


def test_reading_leaves_the_document_as_it_was() -> None:
    document: list[dict[str, Any]] = [{"name": "a"}, {"name": "b", "dependencies": ["a"]}]

    read(document, user_id="ann")

    assert document == [{"name": "a"}, {"name": "b", "dependencies": ["a"]}]


def test_computed_fields_are_never_taken_from_the_document() -> None:
    flow = read(
        [{"name": "a", "task_tree_id": UNKNOWN, "has_references": True}, {"name": "b", "has_children": True}]
    )

    assert {task.task_tree_id for task in flow} == {flow.root.id}
    assert [(task.has_children, task.has_references) for task in flow] == [(True, False), (False, False)]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ([{"name": "a"}, {"name": "b"}, {"name": "c"}], {"a": None, "b": "a", "c": "a"}),
        ([{"name": "a"}, {"name": "b", "parent_id": None}], {"a": "b", "b": None}),
        ([{"name": "a", "parent_id": "b"}, {"name": "b"}, {"name": "c"}], {"a": "b", "b": None, "c": "b"}),
        ([{"name": "a", "parent_id": ID_1.upper()}, {"name": "b", "id": ID_1}], {"a": "b", "b": None}),
        ([{"name": "a", "id": ID_1.upper()}, {"name": "b", "parent_id": ID_1}], {"a": None, "b": "a"}),
        ({"task": {"name": "a"}}, {"a": None}),
        ({"task": {"name": "a"}, "children": None}, {"a": None}),
        (
            {
                "task": {"name": "a"},
                "children": [{"task": {"name": "b"}, "children": [{"task": {"name": "c"}}]}],
            },
            {"a": None, "b": "a", "c": "b"},
        ),
        (
            {
                "task": {"name": "a", "id": ID_1},
                "children": [{"task": {"name": "b", "parent_id": ID_1.upper()}}],
            },
            {"a": None, "b": "a"},
        ),
    ],
)
def test_every_task_finds_its_place_in_the_tree(document: object, expected: dict[str, str | None]) -> None:
    assert parents(read(document)) == expected


def test_nested_tasks_come_parents_first_in_the_order_written() -> None:
    document = {
        "task": {"name": "a"},
        "children": [
            {"task": {"name": "b"}, "children": [{"task": {"name": "c"}}]},
            {"task": {"name": "d"}},
        ],
    }

    assert [task.name for task in read(document)] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    "dependency",
    ["a", ID_1, ID_1.upper(), {"id": ID_1}, {"id": "a"}, {"name": "a"}, {"name": "a", "required": True}],
)
def test_a_dependency_is_given_by_id_or_by_name(dependency: object) -> None:
    flow = read([{"id": ID_1, "name": "a"}, {"name": "b", "dependencies": [dependency]}])

    (resolved,) = named(flow, "b").dependencies
    assert (resolved.id, resolved.required) == (ID_1, True)


def test_a_dependency_by_name_may_be_optional() -> None:
    flow = read([{"name": "a"}, {"name": "b", "dependencies": [{"name": "a", "required": False}]}])

    assert [dependency.required for dependency in named(flow, "b").dependencies] == [False]


def test_an_id_wins_over_a_name_that_looks_like_it() -> None:
    flow = read([{"id": ID_1, "name": "a"}, {"name": ID_1}, {"name": "c", "dependencies": [ID_1]}])

    assert named(flow, "c").dependencies[0].id == ID_1


A = {"name": "a"}
TWINS = [A, {"name": "twin"}, {"name": "twin"}]


@batched(
    ("document", "path", "reason"),
    [
        (None, "", "a task must be an object"),
        (5, "", "a task must be an object"),
        ("text", "", "a task must be an object"),
        ([], "", "a flow has at least one task"),
        ({}, "name", "required field 'name' is missing"),
        ([[A]], "[0]", "a task must be an object"),
        ([A, None], "[1]", "a task must be an object"),
        ({"children": []}, "", "not a node of a task tree"),
        ({"task": []}, "", "not a node of a task tree"),
        ({"task": A, "children": {}}, "", "not a node of a task tree"),
        ({"task": A, "children": False}, "", "not a node of a task tree"),
        ({"task": A, "children": ""}, "", "not a node of a task tree"),
        ({"task": A, "children": [A]}, "children[0]", "not a node of a task tree"),
        ({"task": A, "children": [5]}, "children[0]", "not a node of a task tree"),
        ({"task": A, "childs": []}, "childs", "unknown field 'childs' in a node of a task tree"),
        (
            {"task": A, "children": [{"task": {"name": "b", "parent_id": None}}]},
            "children[0].task.parent_id",
            "nested in",
        ),
        (
            {"task": A, "children": [{"task": {"name": "b", "parent_id": UNKNOWN}}]},
            "children[0].task.parent_id",
            "nested in",
        ),
        (
            {"task": A, "children": [{"task": {"name": "b", "parent_id": 5}}]},
            "children[0].task.parent_id",
            "must be null or string",
        ),
        ({"task": {"name": "a", "parent_id": UNKNOWN}}, "task.parent_id", "is not a task of this flow"),
        ([{"name": "a", "parent_id": UNKNOWN}], "[0].parent_id", "is not a task of this flow"),
        ([A, {"name": "b", "parent_id": "c"}], "[1].parent_id", "no task of this flow is named 'c'"),
        ([A, {"name": "b", "parent_id": 5}], "[1].parent_id", "must be null or string, not the number 5"),
        (
            [*TWINS, {"name": "b", "parent_id": "twin"}],
            "[3].parent_id",
            "several tasks are named 'twin'; use an id",
        ),
        (
            [{"name": "a", "parent_id": None}, {"name": "b", "parent_id": None}],
            "[1].parent_id",
            "a flow has one root",
        ),
        (
            [{"name": "a", "parent_id": "b"}, {"name": "b", "parent_id": "a"}],
            "[0].parent_id",
            "parents form a cycle: a -> b -> a",
        ),
        ([A, {"name": "b", "parent_id": "b"}], "[1].parent_id", "parents form a cycle: b -> b"),
        (
            [A, {"name": "b", "dependencies": ["c"]}],
            "[1].dependencies[0]",
            "no task of this flow is named 'c'",
        ),
        (
            [{"name": "alpha"}, {"name": "b", "dependencies": ["alhpa"]}],
            "[1].dependencies[0]",
            "did you mean 'alpha'?",
        ),
        (
            [*TWINS, {"name": "b", "dependencies": ["twin"]}],
            "[3].dependencies[0]",
            "several tasks are named 'twin'",
        ),
        ([A, {"name": "b", "dependencies": [UNKNOWN]}], "[1].dependencies[0]", "is not a task of this flow"),
        ([A, {"name": "b", "dependencies": ["b"]}], "[1].dependencies[0]", "must not depend on itself"),
        (
            [A, {"name": "b", "dependencies": ({"id": "b"},)}],
            "[1].dependencies[0]",
            "must not depend on itself",
        ),
        ([A, {"name": "b", "dependencies": ["a", {"name": "a"}]}], "[1].dependencies[1]", "twice"),
        (
            [A, {"name": "b", "dependencies": [{"name": "a", "id": "a"}]}],
            "[1].dependencies[0].name",
            "unknown field 'name'",
        ),
        (
            [A, {"name": "b", "dependencies": [{"required": True}]}],
            "[1].dependencies[0].id",
            "'id' is missing",
        ),
        ([A, {"name": "b", "dependencies": [None]}], "[1].dependencies[0]", "must be object, not null"),
        ([A, {"name": "b", "dependencies": "a"}], "[1].dependencies", "must be array"),
        ([{"name": "a", "id": 5}, {"name": "b"}], "[0].id", "must be string, not the number 5"),
        ([{"name": "a", "id": []}, {"name": "b"}], "[0].id", "must be string, not an array"),
        ([{"name": "a", "id": "x"}, {"name": "b"}], "[0].id", "'x' is not a UUID v4"),
        ([{"name": "a", "id": None}], "[0].id", "must be string, not null"),
        (
            {"task": {"name": "a", "id": "x"}, "children": [{"task": {"name": "b"}}]},
            "task.id",
            "'x' is not a UUID v4",
        ),
        ([{"name": "a", "id": ID_1}, {"name": "b", "id": ID_1.upper()}], "[1].id", "is also the id of [0]"),
        ([A, {"name": "b", "dependancies": []}], "[1].dependancies", "did you mean 'dependencies'?"),
        (
            [{"name": "a", "user_id": "ann"}, {"name": "b", "user_id": "ben"}],
            "[1].user_id",
            "owner 'ben' differs",
        ),
        ([{"name": "a", "user_id": 5}, {"name": "b"}], "[0].user_id", "must be null or string"),
        ([A, {"name": "b", "inputs": {"a": "\ud800"}}], "[1].inputs", "cannot be written as JSON"),
        ([A, {"name": "\ud800"}], "[1].name", "cannot be written as JSON"),
        (
            [A, {"name": "b", "dependencies": ["\ud800"]}],
            "[1].dependencies[0]",
            "no task of this flow is named",
        ),
        ([A, {"name": "a\x00"}], "[1].name", "must not contain a NUL"),
    ],
)
def test_a_wrong_document_is_one_problem_with_its_place_and_reason(
    document: object, path: str, reason: str
) -> None:
    ((where, why),) = found(document)

    assert where == path
    assert reason in why


def test_a_list_holds_tasks_not_nodes_of_a_tree() -> None:
    assert {path for path, _ in found([{"task": A}])} == {"[0].task", "[0].name"}


def test_a_cycle_between_tasks_given_by_name_is_named() -> None:
    document = [
        {"name": "a"},
        {"name": "fetch", "dependencies": ["report"]},
        {"name": "parse", "dependencies": ["fetch"]},
        {"name": "report", "dependencies": ["parse", "a"]},
    ]

    assert found(document) == [
        ("[1].dependencies", "dependencies form a cycle: fetch -> report -> parse -> fetch")
    ]


def test_all_problems_of_a_flow_are_reported_at_once() -> None:
    document = [
        {"name": "a", "id": "x", "priority": 9},
        {"name": "", "result": {}},
        {"name": "c", "dependencies": ["nobody", UNKNOWN, {"id": 5}, "d"], "colour": "red"},
        {"name": "d", "dependencies": ["c"], "parent_id": "nowhere"},
        {"name": "e", "schemas": {"method": "m", "input_schema": {"required": ["url"]}}, "error": "e"},
        {"name": "f", "schedule_enabled": True, "user_id": "ann"},
        "g",
    ]

    assert {path for path, _ in found(document)} == {
        "[0].id",
        "[0].priority",
        "[1].name",
        "[1].result",
        "[2].dependencies",
        "[2].dependencies[0]",
        "[2].dependencies[1]",
        "[2].dependencies[2].id",
        "[2].colour",
        "[3].parent_id",
        "[4].inputs",
        "[4].error",
        "[5].schedule_type",
        "[5].schedule_expression",
        "[5].user_id",
        "[6]",
    }


def test_the_message_is_the_first_problem_and_how_many_more_there_are() -> None:
    with pytest.raises(InvalidTasks, match=r"^\[0\]\.priority: .* \(and 1 more\)$") as caught:
        read([{"name": "a", "priority": 9}, {"name": "b", "priority": 9}])

    assert caught.value.problems()[0] == {
        "field": "priority",
        "reason": "9 is greater than the maximum of 3",
        "expected": 3,
        "actual": 9,
        "path": "[0].priority",
    }


def test_tasks_without_an_owner_get_the_one_who_submits_them() -> None:
    flow = read(
        [{"name": "a"}, {"name": "b", "user_id": "ann"}, {"name": "c", "user_id": None}], user_id="ann"
    )

    assert {task.user_id for task in flow} == {"ann"}


def test_tasks_without_an_owner_get_the_flows() -> None:
    flow = read([{"name": "a", "user_id": "ann"}, {"name": "b"}])

    assert {task.user_id for task in flow} == {"ann"}


def test_nobody_creates_tasks_of_another_owner() -> None:
    document = [{"name": "a", "user_id": "ben"}, {"name": "b"}, {"name": "c", "user_id": 5}]

    assert [path for path, _ in found(document, user_id="ann")] == ["[0].user_id", "[2].user_id"]


@pytest.mark.parametrize(
    ("source", "resolved"),
    [
        ("a", ID_1),
        ("a.path.to", f"{ID_1}.path.to"),
        ("with.dots.path", f"{ID_2}.path"),
        (f"{ID_1}.path", f"{ID_1}.path"),
        (f"{ID_1.upper()}.path", f"{ID_1.upper()}.path"),
    ],
)
def test_an_input_mapping_may_start_with_the_name_of_a_dependency(source: str, resolved: str) -> None:
    flow = read(
        [
            {"id": ID_1, "name": "a"},
            {"id": ID_2, "name": "with.dots"},
            {"name": "b", "dependencies": [ID_1, ID_2], "params": {"input_mappings": {"x": source}}},
        ]
    )

    assert named(flow, "b").params == {"input_mappings": {"x": resolved}}


@pytest.mark.parametrize("source", ["twin.path", "b.path", "", ".", "." * 1_000_000, 5, None, "\ud800"])
def test_an_input_mapping_that_starts_at_no_dependency_is_refused(source: object) -> None:
    document = [*TWINS, {"name": "b", "params": {"input_mappings": {"x": source}}}]

    ((path, _),) = found(document)

    assert path.startswith("[3].params")


@pytest.mark.parametrize("mappings", ["all", [], False, 0])
def test_input_mappings_that_are_no_object_are_refused(mappings: object) -> None:
    assert found({"name": "a", "params": {"input_mappings": mappings}}) == [
        ("params.input_mappings", "input_mappings must be an object")
    ]


def test_a_wrong_dependency_does_not_make_the_mapping_from_it_wrong() -> None:
    fields = {"dependencies": [{"id": "a", "requird": True}], "params": {"input_mappings": {"x": "a.b"}}}

    assert [path for path, _ in found([A, {"name": "b", **fields}])] == ["[1].dependencies[0].requird"]


def test_a_printed_flow_reads_back_equal() -> None:
    flow = a_flow(
        "a", {"name": "b", "dependencies": ["a"], "inputs": {"n": 2**70}}, {"name": "c", "parent_id": "b"}
    )

    assert list(read([task_object(task) for task in flow])) == list(flow)


@pytest.mark.parametrize("linked_by", ["parent_id", "dependencies"])
def test_a_chain_of_20_000_tasks_is_read(linked_by: str) -> None:
    flow = read(a_chain(20_000, linked_by=linked_by))

    assert len(flow) == 20_000
    assert flow.root.has_children


def test_a_deep_nested_document_is_read_without_recursion() -> None:
    document: dict[str, Any] = {"task": {"name": "leaf"}}
    for _ in range(2_000):
        document = {"task": {"name": "t"}, "children": [document]}

    assert len(read(document)) == 2_001


def test_only_the_first_wrong_names_of_a_flow_get_a_suggestion() -> None:
    document = [{"name": f"task-{number}"} for number in range(100)]
    document += [{"name": f"x{number}", "dependencies": ["tsak-1"]} for number in range(50)]  # type: ignore[dict-item]

    suggested = ["did you mean" in reason for _, reason in found(document)]

    assert (sum(suggested), len(suggested)) == (MAX_SUGGESTIONS, 50)


def test_a_schedule_is_planned_when_the_flow_is_read() -> None:
    fields = {"schedule_enabled": True, "schedule_type": "daily", "schedule_expression": "13:00"}

    (task,) = read({"name": "a", **fields, "next_run_at": "2031-01-01T00:00:00Z"})

    assert task.next_run_at == NOON.replace(hour=13)
