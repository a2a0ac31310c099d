"""Many small cases in few tests: what pytest does around a test takes longer than such a case.

A test that fails names every case that failed, and shows where.
"""

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from weft.secrets.registry import forget_all

_SHOWN = 100
"""How much of a case is shown where it has no name."""


class Case(NamedTuple):
    """What one call of a test is given."""

    name: str
    values: dict[str, Any]


class Failures:
    """What is wrong with the cases of a batch."""

    def __init__(self) -> None:
        self._told: list[str] = []

    @contextmanager
    def of(self, case: Case) -> Iterator[None]:
        """Note what the block raises, and go on; what a case has left of secrets is forgotten."""
        try:
            yield
        except pytest.skip.Exception:
            pass
        except (Exception, pytest.fail.Exception) as error:
            found = pytest.ExceptionInfo.from_exception(error)
            self._told.append(f"case {case.name}\n{found.getrepr(style='short', tbfilter=_of_the_test)}")
        finally:
            forget_all()

    def tell(self, count: int) -> None:
        """Fail if any case did."""
        if self._told:
            said = "\n\n".join(self._told)
            pytest.fail(f"{len(self._told)} of {count} cases failed\n\n{said}", pytrace=False)


def batched(
    names: str | Sequence[str],
    cases: Iterable[Any],
    *,
    ids: Iterable[object] | Callable[[Any], object] | None = None,
    size: int = 60,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """As `pytest.mark.parametrize`, for cases of about a millisecond: one test calls `size` of them in turn.

    They share the fixtures of that test: one that changes them must not be batched, nor one whose secrets a
    fixture makes known, for they are forgotten after each case.
    """
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    all_cases = list(_named(wanted, list(cases), ids))
    batches = [all_cases[first : first + size] for first in range(0, len(all_cases), size)]

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def run(batch: list[Case], **fixtures: Any) -> None:
            failures = Failures()
            for case in batch:
                with failures.of(case):
                    test(**case.values, **fixtures)
            failures.tell(len(batch))

        @functools.wraps(test)
        async def run_async(batch: list[Case], **fixtures: Any) -> None:
            failures = Failures()
            for case in batch:
                with failures.of(case):
                    await _awaitable(test(**case.values, **fixtures))
            failures.tell(len(batch))

        made: Any = run_async if inspect.iscoroutinefunction(test) else run
        parameters = inspect.signature(test).parameters
        assert set(wanted) <= set(parameters), f"{test.__name__} does not take {wanted}"
        others = [parameter for name, parameter in parameters.items() if name not in wanted]
        first = inspect.Parameter("batch", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        made.__signature__ = inspect.Signature([first, *others])
        return pytest.mark.parametrize("batch", batches, ids=map(str, range(len(batches))))(made)  # type: ignore[no-any-return]

    return decorate


def _named(
    wanted: list[str], cases: list[Any], ids: Iterable[object] | Callable[[Any], object] | None
) -> Iterator[Case]:
    given = None if ids is None or callable(ids) else list(ids)
    for number, case in enumerate(cases):
        name = None if given is None else str(given[number])
        if isinstance(case, type(pytest.param())):
            assert not case.marks, "cases of a batch have no marks of their own"
            name = case.id if isinstance(case.id, str) else name
            values = tuple(case.values)
        else:
            values = (case,) if len(wanted) == 1 else tuple(case)
        assert len(values) == len(wanted), f"case {number} has {len(values)} values for {wanted}"
        if name is None and callable(ids):
            name = "-".join(str(ids(value)) for value in values)
        if name is None:
            name = _shown(values)
        yield Case(f"{number} ({name})", dict(zip(wanted, values, strict=True)))


def _awaitable(found: Any) -> Awaitable[Any]:
    assert inspect.isawaitable(found)
    return found


def _shown(values: tuple[Any, ...]) -> str:
    try:
        return repr(values if len(values) > 1 else values[0])[:_SHOWN]
    except (ValueError, RecursionError) as error:  # a number of too many digits, or what nests too deeply
        return type(error).__name__


def _of_the_test(found: pytest.ExceptionInfo[BaseException]) -> Any:
    """Return the traceback without the lines of this file."""
    return found.traceback.filter(lambda entry: str(entry.path) != __file__)
