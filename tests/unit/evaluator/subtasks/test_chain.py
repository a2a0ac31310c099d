"""Chains of subtasks: how deep they may get, and what is the same work."""

import pytest

from weft.evaluator.budget import EvaluationLimits, Scope
from weft.evaluator.subtasks.chain import MAX_REQUESTED_DEPTH, Chain, chain_scope, depth_limit, make_link


def chain(depth: int, limit: int) -> Chain:
    return Chain(depth, limit, (), Scope({}))


@pytest.mark.parametrize(
    ("around", "of_author", "of_request", "limit"),
    [
        (None, None, None, 5),
        (None, 9, None, 9),
        (None, None, 9, 9),
        (None, None, 10**6, MAX_REQUESTED_DEPTH),
        (None, 3, 9, 3),
        (None, 9, 3, 3),
        (chain(2, 5), None, None, 5),
        (chain(2, 5), 1, None, 3),
        (chain(2, 5), None, 2, 4),
        (chain(2, 5), 9, 9, 5),
        (chain(2, 5), 2, 1, 3),
    ],
)
def test_further_in_a_limit_can_only_be_lowered(
    around: Chain | None, of_author: int | None, of_request: int | None, limit: int
) -> None:
    assert depth_limit(around, default=5, of_author=of_author, of_request=of_request) == limit


def test_the_same_work_is_the_same_template_with_the_same_inputs() -> None:
    one = make_link("f", {"a": 1, "b": {"x": [1, 2], "y": None}})

    assert make_link("f", {"b": {"y": None, "x": [1, 2]}, "a": 1}) == one
    assert make_link("f", {"a": 1, "b": {"x": [2, 1], "y": None}}) != one
    assert make_link("g", {"a": 1, "b": {"x": [1, 2], "y": None}}) != one


def test_what_a_chain_uses_counts_around_it_too() -> None:
    outer = Scope({"tokens": 100})
    scope = chain_scope(EvaluationLimits(subtask_seconds=10), outer, now=5.0)

    scope.pay("f", {"tokens": 30.0, "cost": 0.0})

    assert outer.left("tokens") == scope.left("tokens") == 70
    assert scope.deadline == 15.0
