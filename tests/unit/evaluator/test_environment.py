"""Environments."""

import pytest

from weft.evaluator.environment import Env, GlobalEnv
from weft.language.ast import Atomic, Template
from weft.language.library import TaskLibrary, definition_of


def test_names_are_bound_to_arguments_in_order() -> None:
    assert Env(("a", "b"), (1, 2)) == {"a": 1, "b": 2}


def test_a_miss_goes_outwards() -> None:
    outer = Env(("a", "b"), (1, 2))
    inner = Env(("a",), (3,), outer)

    assert (inner["a"], inner["b"]) == (3, 2)
    assert (inner.lookup("a"), inner.lookup("b")) == (3, 2)


def test_find_gives_the_innermost_environment_that_binds_the_name() -> None:
    outer = Env(("a", "b"), (1, 2))
    inner = Env(("a",), (3,), outer)

    assert inner.find("a") is inner
    assert inner.find("b") is outer


@pytest.mark.parametrize("read", [Env.find, Env.lookup, Env.__getitem__])
def test_a_name_that_nothing_binds_is_a_name_error(read: object) -> None:
    with pytest.raises(NameError, match="'x' is not bound"):
        read(Env(outer=Env()), "x")  # type: ignore[operator]


def test_a_child_has_its_own_bindings() -> None:
    outer = Env(("a",), (1,))
    inner = outer.child(a=2)
    inner["b"] = 3

    assert (outer, inner, inner.outer) == ({"a": 1}, {"a": 2, "b": 3}, outer)


def test_a_name_is_found_through_a_hundred_thousand_environments() -> None:
    env = Env(("a",), (1,))
    for _ in range(100_000):
        env = Env(outer=env)

    assert env["a"] == 1
    assert env.find("a") == {"a": 1}


def test_the_global_environment_binds_the_library_and_its_templates() -> None:
    library = TaskLibrary()
    env = GlobalEnv(library)
    definition = definition_of(Template(name="review", parameters=(), body=Atomic(subtype="director")))
    library.register_task(definition)

    assert env["taskLibrary"] is library
    assert Env(outer=env)["review"] is definition
    assert (definition.type, definition.subtype) == ("atomic", "director")
    with pytest.raises(NameError):
        env["reviews"]
