"""What the property tests draw: JSON values, valid tasks, flows."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from tests.builders import NOON, numbered_ids
from weft.ids import TaskId
from weft.tasks.flow import Flow
from weft.tasks.record import Dependency, ExecutorType, Origin, ScheduleType, Status, Task

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=40)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=6,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)
task_ids = st.uuids(version=4).map(str).map(TaskId)
times = st.datetimes(datetime(1970, 1, 1), datetime(2999, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - Hypothesis wants bounds without a zone


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


@st.composite
def status_fields(draw: st.DrawFn, status: Status) -> dict[str, Any]:
    """Draw the fields that must agree with a status."""
    progress = {Status.PENDING: st.just(0.0), Status.COMPLETED: st.just(1.0)}
    is_broken = status in {Status.FAILED, Status.CANCELLED}
    started = {Status.PENDING: st.none(), Status.IN_PROGRESS: times}
    return {
        "status": status,
        "result": draw(optional(json_objects)) if status is Status.COMPLETED else None,
        "error": draw(names) if is_broken else None,
        "progress": draw(progress.get(status, st.floats(0.0, 1.0))),
        "started_at": draw(started.get(status, optional(times))),
        "completed_at": draw(times) if status.is_terminal else None,
    }


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    """Any task that breaks no rule; its schedule, if any, is off."""
    status = draw(st.sampled_from(Status))
    origins = [None, Origin.CREATE, Origin.COPY]
    origin = draw(
        st.sampled_from([*origins, Origin.LINK, Origin.ARCHIVE] if status is Status.COMPLETED else origins)
    )
    schemas = st.fixed_dictionaries(
        {"method": names},
        optional={
            "type": st.sampled_from([kind.value for kind in ExecutorType]),
            "model": texts,
            "more": json_values,
        },
    )
    max_runs = draw(optional(st.integers(0, 2**63 - 1)))
    return Task(
        id=draw(task_ids),
        parent_id=draw(optional(task_ids)),
        user_id=draw(optional(names)),
        name=draw(names),
        priority=draw(st.integers(0, 3)),
        inputs=draw(json_objects),
        schemas=draw(optional(schemas)),
        params=draw(optional(json_objects)),
        dependencies=tuple(draw(st.lists(st.builds(Dependency, task_ids, st.booleans()), max_size=3))),
        created_at=draw(optional(times)),
        updated_at=draw(optional(times)),
        origin_type=origin,
        original_task_id=draw(task_ids if origin in {Origin.LINK, Origin.ARCHIVE} else optional(task_ids)),
        has_references=draw(st.booleans()),
        schedule_type=draw(optional(st.sampled_from(ScheduleType))),
        schedule_expression=draw(optional(names)),
        schedule_start_at=draw(optional(times)),
        last_run_at=draw(optional(times)),
        max_runs=max_runs,
        run_count=draw(st.integers(0, 2**63 - 1 if max_runs is None else max_runs)),
        **draw(status_fields(status)),
    )


_ANY_STATUS = st.sampled_from(Status)


@st.composite
def flows(draw: st.DrawFn, *, statuses: st.SearchStrategy[Status] = _ANY_STATUS, max_size: int = 10) -> Flow:
    """Draw a tree with acyclic dependencies, and a status for each task."""
    size = draw(st.integers(1, max_size))
    new_id = numbered_ids()
    ids = [new_id() for _ in range(size)]
    # Dependencies point back in an order of their own: they have nothing to do with the tree.
    order = draw(st.permutations(range(size)))
    owner = draw(optional(names))
    parents = [None, *(draw(st.integers(0, index - 1)) for index in range(1, size))]
    made: list[Task] = []
    for index in range(size):
        before = [ids[other] for other in order[: order.index(index)]]
        targets = draw(st.lists(st.sampled_from(before), unique=True, max_size=3)) if before else []
        dependencies = tuple(Dependency(target, draw(st.booleans())) for target in targets)
        parent = parents[index]
        mappings = {f"p{place}": f"{target}.value" for place, target in enumerate(targets)}
        made.append(
            Task(
                id=ids[index],
                parent_id=None if parent is None else ids[parent],
                user_id=owner,
                name=f"t{index}",
                inputs=draw(json_objects),
                params={"input_mappings": mappings, "note": draw(texts)},
                dependencies=dependencies,
                created_at=NOON,
                updated_at=NOON,
                origin_type=Origin.CREATE,
                task_tree_id=ids[0],
                has_children=index in parents,
                **draw(status_fields(draw(statuses))),
            )
        )
    return Flow(made)
