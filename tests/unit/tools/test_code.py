"""What of a function makes its digest, and what does not."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

from weft.tools.functions import code_digest

ADD = "def add(a, b=2):\n    return a + b\n"
PICK = 'def pick(a):\n    return a in {"x", "y", "z"} and [one + 1 for one in a]\n'


def made(text: str) -> Callable[..., Any]:
    names: dict[str, Any] = {}
    exec(text, names)  # noqa: S102 - the text is a few lines above
    function: Callable[..., Any] = next(one for name, one in names.items() if not name.startswith("__"))
    return function


def test_a_function_that_moves_in_its_file_stays_what_it_is() -> None:
    assert code_digest(made(ADD)) == code_digest(made(f"\n\n# Moved.\n{ADD}"))


@pytest.mark.parametrize(
    "change",
    [("a + b", "a - b"), ("b=2", "b=3"), ("(a, b=2)", "(a, b=2, *, c=1)")],
    ids=["code", "default", "more"],
)
def test_a_change_of_the_code_is_seen(change: tuple[str, str]) -> None:
    assert code_digest(made(ADD)) != code_digest(made(ADD.replace(*change)))


def test_a_change_inside_of_a_comprehension_and_of_what_is_wrapped_is_seen() -> None:
    def kept(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*given: Any) -> Any:
            return function(*given)

        return call

    other = PICK.replace("one + 1", "one + 2")
    assert code_digest(made(PICK)) != code_digest(made(other))
    assert code_digest(kept(made(PICK))) != code_digest(kept(made(other)))
