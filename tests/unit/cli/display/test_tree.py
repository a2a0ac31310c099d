"""The rows of a printed tree."""

from typing import Any

import pytest
from rich.cells import cell_len

from tests.builders import in_status
from weft.cli.display.tree import distinguishing_arguments, tree_rows
from weft.ids import TaskId
from weft.tasks.flow import Flow
from weft.tasks.record import Status, evolve

STEP = TaskId("c0000000-0000-4000-8000-00000000abcd")


@pytest.mark.parametrize(
    ("status", "said"),
    [(Status.IN_PROGRESS, "0%"), (Status.FAILED, "[unfinished: its run has ended]")],
)
def test_a_step_that_was_under_way_when_its_run_ended_is_not_shown_as_work_going_on(
    status: Status, said: str
) -> None:
    root = in_status(status)
    root = evolve(root, task_tree_id=root.id, has_children=True)
    params = {"step": {"key": "1", "kind": "atomic"}}
    step = evolve(
        in_status(Status.IN_PROGRESS), id=STEP, parent_id=root.id, params=params, task_tree_id=root.id
    )

    _, row = tree_rows(Flow((root, step)), ())

    assert said in row.facts


def a_tree(*children: dict[str, Any]) -> Flow:
    """Return a flow of a root and children with these fields, below the root or the one before."""
    root = in_status(Status.COMPLETED)
    tasks = [evolve(root, task_tree_id=root.id, has_children=True)]
    for number, fields in enumerate(children):
        task_id = TaskId(f"c0000000-0000-4000-8000-{number:012x}")
        parent = tasks[-1].id if fields.pop("is_below", False) else root.id
        made = in_status(fields.pop("status", Status.COMPLETED))
        tasks.append(evolve(made, id=task_id, parent_id=parent, task_tree_id=root.id, **fields))
    return Flow(tasks)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "a long name " * 20},
        {"name": "評価" * 60, "inputs": {"path": "評価" * 60}},
        {"name": "x", "status": Status.FAILED, "error": "went wrong " * 40},
        {"name": "x", "params": {"step": {"key": "1", "kind": "atomic"}, "prompt": {"prompt": "p" * 200}}},
    ],
)
def test_no_row_is_wider_than_the_terminal(fields: dict[str, Any]) -> None:
    deep = [{"name": f"level {depth}", "is_below": True} for depth in range(40)]
    flow = a_tree(dict(fields), dict(fields), *deep)

    for width in (60, 80, 200):
        for row in tree_rows(flow, (), width=width):
            assert cell_len(f"{row.branches}{row.label}  {row.facts}") <= width
            assert cell_len(f"{row.below}{row.error}") <= width
            assert row.facts.startswith("c0000000") or row.facts.startswith(flow.root.id[:8])


def test_the_argument_in_which_siblings_differ_tells_them_apart() -> None:
    calls = [{"name": "review", "inputs": {"style": "strict", "path": path}} for path in ("a.py", "b.py")]
    scripts = [
        {
            "name": "count",
            "params": {"prompt": {"argv": ["wc", word]}},
        }
        for word in ("-l", "-c")
    ]
    flow = a_tree(*calls, *scripts, {"name": "alone", "inputs": {"path": "c.py"}})

    assert list(distinguishing_arguments(flow).values()) == ["a.py", "b.py", "-l", "-c"]


def test_siblings_that_differ_in_nothing_have_no_argument() -> None:
    assert distinguishing_arguments(a_tree({"name": "x"}, {"name": "x"})) == {}
