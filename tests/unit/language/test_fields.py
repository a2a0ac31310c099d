"""Context settings: defaults, what is written, and the rule that fresh context excludes inherited context."""

from itertools import product
from typing import Any

import pytest

from weft.language.ast import Reference
from weft.language.fields import (
    DEFAULTS,
    REF,
    SETTINGS,
    TASK_FIELDS,
    TASK_KINDS,
    ContextKind,
    TaskOptions,
    by_keyword,
    context_conflict,
    merge_context,
)
from weft.language.source import Source, Span
from weft.language.task_fields import ContextManagement, ContextOverrides

HERE = Span(Source("t.xml", ""), 4, 7)
KINDS: tuple[ContextKind, ...] = tuple(DEFAULTS)


def merged(kind: ContextKind, **written: Any) -> ContextManagement:
    return merge_context(kind, ContextOverrides(**written))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("atomic", ("full", False, "notes_only", "disabled")),
        ("sequential", ("full", True, "notes_only", "disabled")),
        ("script", ("full", False, "notes_only", "disabled")),
        ("reduce", ("none", True, "notes_only", "enabled")),
        ("director_evaluator_loop", ("none", True, "notes_only", "enabled")),
        ("subtask", ("none", False, "notes_only", "enabled")),
    ],
)
def test_a_kind_has_its_defaults(kind: ContextKind, expected: tuple[Any, ...]) -> None:
    assert merged(kind) == ContextManagement(*expected)


@pytest.mark.parametrize(
    ("kind", "written", "expected"),
    [
        # one of the two is written and the default of the other would break the rule
        ("atomic", {"fresh_context": "enabled"}, ("none", "enabled")),
        ("sequential", {"fresh_context": "enabled"}, ("none", "enabled")),
        ("reduce", {"inherit_context": "full"}, ("full", "disabled")),
        ("reduce", {"inherit_context": "subset"}, ("subset", "disabled")),
        ("subtask", {"inherit_context": "subset"}, ("subset", "disabled")),
        # the default of the other goes with it already
        ("atomic", {"inherit_context": "none"}, ("none", "disabled")),
        ("atomic", {"inherit_context": "subset"}, ("subset", "disabled")),
        ("reduce", {"fresh_context": "disabled"}, ("none", "disabled")),
        ("reduce", {"inherit_context": "none"}, ("none", "enabled")),
        # both are written
        ("atomic", {"inherit_context": "none", "fresh_context": "enabled"}, ("none", "enabled")),
        ("reduce", {"inherit_context": "full", "fresh_context": "disabled"}, ("full", "disabled")),
    ],
)
def test_a_setting_left_out_follows_the_one_written(
    kind: ContextKind, written: dict[str, Any], expected: tuple[str, str]
) -> None:
    settings = merged(kind, **written)
    assert (settings.inherit_context, settings.fresh_context) == expected


def test_what_is_accumulated_is_overridden_one_by_one() -> None:
    assert not merged("sequential", accumulate_data=False).accumulate_data
    settings = merged("atomic", accumulation_format="full_output")
    assert (settings.accumulate_data, settings.accumulation_format) == (False, "full_output")


@pytest.mark.parametrize("inherit", ["full", "subset"])
def test_fresh_context_with_inherited_context_is_refused_with_its_place(inherit: Any) -> None:
    problem = context_conflict(ContextOverrides(inherit_context=inherit, fresh_context="enabled"), HERE)
    assert problem is not None
    assert (problem.code, str(problem.span)) == ("context-conflict", "t.xml:4:7")
    assert f'inherit_context "{inherit}"' in problem.message
    assert 'write inherit_context "none", or fresh_context "disabled"' in problem.message


def test_no_settings_in_force_break_the_rule() -> None:
    for kind, inherit, fresh in product(
        KINDS, (None, "full", "none", "subset"), (None, "enabled", "disabled")
    ):
        written = ContextOverrides(inherit_context=inherit, fresh_context=fresh)  # type: ignore[arg-type]
        if context_conflict(written, HERE) is None:
            settings = merge_context(kind, written)
            assert settings.fresh_context == "disabled" or settings.inherit_context == "none"
            assert settings.inherit_context == (inherit or settings.inherit_context)
            assert settings.fresh_context == (fresh or settings.fresh_context)


def test_the_table_has_every_field_of_the_nodes() -> None:
    common = {field.name for field in TASK_FIELDS} | {"span"}
    assert set(Reference.__struct_fields__) == common | {REF.name}
    for node, kind in TASK_KINDS.items():
        assert set(node.__struct_fields__) == common | {field.name for field in kind.fields}
    for settings, fields in SETTINGS.items():
        assert settings.__struct_fields__ == tuple(field.name for field in fields)


def test_type_checkers_know_every_option_of_the_builder() -> None:
    options = {field.option for field in by_keyword(TASK_FIELDS).values()}
    assert set(TaskOptions.__annotations__) == options
