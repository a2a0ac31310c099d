"""Archives: frozen deep copies."""

import pytest

from tests.builders import NOON, MoveTask, a_flow, completed, found_in, named, numbered_ids, with_task
from weft.tasks.flow import Flow
from weft.tasks.operations import ArchiveTasks, CopyTasks, DeleteTasks, LinkTasks, UpdateTask
from weft.tasks.operations.copy import SourceNotCompleted
from weft.tasks.operations.lifecycle import CannotDelete
from weft.tasks.parsing.rules import consistency_problems
from weft.tasks.record import FIELD_NAMES, Origin, Status, evolve
from weft.tasks.states import Cancelled, Completed, Failed, FrozenTask, Move, Retried, Started


def archive_of(flow: Flow, name: str) -> Flow:
    operation = ArchiveTasks(task_id=named(flow, name).id, new_id=numbered_ids("b"), now=NOON)
    assert operation.needs().flows_of == (named(flow, name).id,)
    return operation.decide(found_in(flow)).value


@pytest.fixture
def flow() -> Flow:
    return completed(
        a_flow(
            {"name": "root", "inputs": {"a": 1}, "params": {"p": 1}}, {"name": "b", "dependencies": ["root"]}
        )
    )


@pytest.fixture
def archive(flow: Flow) -> Flow:
    return archive_of(flow, "root")


def test_an_archive_holds_everything_its_sources_hold(flow: Flow, archive: Flow) -> None:
    new = {
        "id",
        "parent_id",
        "dependencies",
        "origin_type",
        "original_task_id",
        "task_tree_id",
        "created_at",
        "updated_at",
    }
    for task in archive:
        source = named(flow, task.name)
        assert {name for name in FIELD_NAMES if getattr(task, name) != getattr(source, name)} <= new
        assert (task.origin_type, task.original_task_id) == (Origin.ARCHIVE, source.id)
        assert task.is_frozen
        assert consistency_problems(task) == []
    assert named(archive, "b").dependencies[0].id == archive.root.id


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.COMPLETED])
def test_only_completed_tasks_are_archived(flow: Flow, status: Status) -> None:
    unfinished = with_task(flow, evolve(named(flow, "b"), status=status))

    with pytest.raises(SourceNotCompleted, match=f"can be archived: b .* is {status}"):
        archive_of(unfinished, "root")


MOVES: list[Move] = [
    Started(NOON),
    Completed(NOON, {}),
    Failed(NOON, "e"),
    Cancelled(NOON),
    Retried(NOON),
]


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.verb)
def test_no_move_changes_an_archive(archive: Flow, move: Move) -> None:
    with pytest.raises(FrozenTask):
        MoveTask(archive.root.id, move).decide(found_in(archive))


@pytest.mark.parametrize("fields", [{"name": "x"}, {"priority": 0}, {"dependencies": []}, {"id": "x"}, {}])
def test_no_update_changes_an_archive(archive: Flow, fields: dict[str, object]) -> None:
    with pytest.raises(FrozenTask):
        UpdateTask(task_id=archive.root.id, fields=fields, now=NOON).decide(found_in(archive))


@pytest.mark.parametrize("with_children", [False, True])
def test_an_archive_cannot_be_deleted(archive: Flow, with_children: bool) -> None:
    operation = DeleteTasks(task_ids=(archive.root.id,), with_children=with_children, now=NOON)

    with pytest.raises(CannotDelete):
        operation.decide(found_in(archive))


def test_an_archive_can_be_copied_linked_and_archived_and_stays_as_it_is(archive: Flow) -> None:
    before = list(archive)

    for operation in (CopyTasks, LinkTasks, ArchiveTasks):
        made = operation(task_id=archive.root.id, new_id=numbered_ids("c"), now=NOON)
        changes = made.decide(found_in(archive)).changes
        assert (changes.updated, changes.deleted) == ((), ())
        assert changes.added[0].original_task_id == archive.root.id
    assert list(archive) == before
