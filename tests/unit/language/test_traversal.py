"""The names that a tree uses."""

from collections.abc import Set

import pytest

from weft.language.reading import read_text
from weft.language.traversal import used_names


@pytest.mark.parametrize(
    ("text", "called", "mentioned"),
    [
        ("(f (g 1))", {"f", "g"}, set()),
        ("(map f xs)", {"map"}, {"f", "xs"}),
        ('(deftask t (x) :instructions "{{x}} {{g(x, h)}}")', {"g"}, {"x", "h"}),
        ('<task ref="f"><inputs><input name="a" from="b"/></inputs></task>', {"f"}, {"b"}),
        ("(let ((a (f))) (if a (list 'quoted) nil))", {"f", "list"}, {"a"}),
    ],
)
def test_calls_references_and_variables_are_found(text: str, called: Set[str], mentioned: Set[str]) -> None:
    used = used_names(read_text(text, "<test>").forms)

    assert set(used.called) == called
    assert set(used.mentioned) == mentioned
    assert not used.is_choosing


@pytest.mark.parametrize(
    "text",
    [
        '(director-evaluator-loop :criteria "k" :max-iterations 1 :director (f))',
        '(deftask t (x) :instructions "{{x}}" :tools ("system:spawn_subtask"))',
    ],
)
def test_a_loop_without_evaluator_and_a_task_that_spawns_choose_templates(text: str) -> None:
    assert used_names(read_text(text, "<test>").forms).is_choosing


def test_a_deep_tree_is_no_problem() -> None:
    text = "(f " * 900 + "x" + ")" * 900

    assert used_names(read_text(text, "<test>").forms).mentioned == {"x"}
