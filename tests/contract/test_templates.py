"""The templates of a store, on every store: versions, owners, removal; and params that an attempt keeps."""

from datetime import timedelta

from tests.builders import NOON, a_flow
from weft.store.models import NewTemplate, RegisteredTemplate, Run, TemplateFacts
from weft.store.protocol import EVERYONE, Claim, Owner, TaskStore
from weft.tasks.operations import SubmitFlow
from weft.tasks.states import Completed

FACTS = TemplateFacts(
    type="composite",
    summary="Doubles.",
    input_schema={"type": "object", "properties": {"x": {"default": None}}},
    names=("other",),
    is_choosing=True,
)


async def add(store: TaskStore, name: str, text: str, user_id: str | None = None) -> tuple[int, bool]:
    (added,) = await store.add_templates([NewTemplate(name, text, FACTS)], user_id=user_id, now=NOON)
    return added.template.version, added.is_new


def versions(templates: "list[RegisteredTemplate]") -> list[tuple[str, int]]:
    return [(one.name, one.version) for one in templates]


async def test_a_changed_text_makes_the_next_version_and_the_same_text_none(store: TaskStore) -> None:
    assert await add(store, "double", "1") == (1, True)
    assert await add(store, "double", "1") == (1, False)
    assert await add(store, "double", "2") == (2, True)
    assert await add(store, "double", "1") == (3, True)

    assert versions(list(await store.templates(owner=EVERYONE))) == [("double", 3)]
    kept = await store.template_versions("double", owner=EVERYONE)
    assert [(one.version, one.text) for one in kept] == [(1, "1"), (2, "2"), (3, "1")]


async def test_what_was_registered_reads_back_equal(store: TaskStore) -> None:
    (added,) = await store.add_templates([NewTemplate("ü ber", "(a)\n", FACTS)], user_id="ann", now=NOON)

    (found,) = await store.templates(owner=Owner("ann"))
    assert found == added.template == RegisteredTemplate("ü ber", 1, "ann", "(a)\n", FACTS, NOON)


async def test_several_are_registered_together_one_twice(store: TaskStore) -> None:
    new = [NewTemplate("b", "1", FACTS), NewTemplate("a", "1", FACTS), NewTemplate("b", "2", FACTS)]

    added = await store.add_templates(new, user_id=None, now=NOON)

    assert versions([one.template for one in added]) == [("b", 1), ("a", 1), ("b", 2)]
    assert versions(list(await store.templates(owner=EVERYONE))) == [("a", 1), ("b", 2)]
    assert versions(list(await store.templates(owner=EVERYONE, names=["b", "c", "\0"]))) == [("b", 2)]
    assert await store.templates(owner=EVERYONE, names=[]) == []


async def test_each_owner_has_a_library_and_the_operator_sees_all(store: TaskStore) -> None:
    for user_id in ("ann", "bob", None):
        assert await add(store, "double", f"of {user_id}", user_id) == (1, True)
    await add(store, "double", "new", "bob")

    async def seen(owner: Owner) -> list[tuple[str | None, int]]:
        return [(one.user_id, one.version) for one in await store.templates(owner=owner)]

    assert await seen(Owner("ann")) == [("ann", 1)]
    assert await seen(Owner("bob")) == [("bob", 2)]
    assert await seen(Owner(None)) == [(None, 1)]
    assert await seen(EVERYONE) == [(None, 1), ("ann", 1), ("bob", 2)]
    assert len(await store.template_versions("double", owner=Owner("bob"))) == 2
    assert len(await store.template_versions("double", owner=EVERYONE)) == 4


async def test_a_removed_template_is_found_by_its_versions_only(store: TaskStore) -> None:
    await add(store, "double", "1")
    await add(store, "double", "2")
    later = NOON + timedelta(hours=1)

    removed = await store.remove_template("double", user_id=None, now=later)

    assert removed is not None
    assert (removed.version, removed.removed_at) == (2, later)
    assert await store.remove_template("double", user_id=None, now=later) is None
    assert await store.templates(owner=EVERYONE) == []
    kept = await store.template_versions("double", owner=EVERYONE)
    assert [(one.version, one.removed_at) for one in kept] == [(1, None), (2, later)]
    assert await store.known_templates(["double", "triple"]) == {"double"}
    assert await add(store, "double", "2") == (3, True)
    assert versions(list(await store.templates(owner=EVERYONE))) == [("double", 3)]


async def test_only_the_owner_removes_a_template(store: TaskStore) -> None:
    await add(store, "double", "1", "ann")

    assert await store.remove_template("double", user_id="bob", now=NOON) is None
    assert await store.remove_template("double", user_id=None, now=NOON) is None
    assert await store.remove_template("\0", user_id="\0", now=NOON) is None
    assert len(await store.templates(owner=Owner("ann"))) == 1


async def started(store: TaskStore) -> Claim:
    flow = await store.operate(SubmitFlow(a_flow("one"), NOON, is_run=True), owner=EVERYONE)
    await store.add_worker("w", lease_seconds=3600)
    return await store.start(flow.root.id, worker="w", now=NOON, owner=EVERYONE)


async def test_params_are_kept_only_while_the_attempt_holds(store: TaskStore) -> None:
    claim = await started(store)
    run = Run(claim.task_id, claim.attempt, claim.task_tree_id, claim.user_id)
    late = Run(claim.task_id, claim.attempt + 1, claim.task_tree_id, claim.user_id)

    assert await store.update_params(run, {"a": 1}, now=NOON)
    assert not await store.update_params(late, {"a": 2}, now=NOON)
    assert (await store.get(claim.task_id, owner=EVERYONE)).params == {"a": 1}
    await store.finish(claim, Completed(NOON, {}))
    assert not await store.update_params(run, {"a": 3}, now=NOON)
    assert (await store.get(claim.task_id, owner=EVERYONE)).params == {"a": 1}
