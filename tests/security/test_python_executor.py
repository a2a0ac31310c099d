"""The python executor: only functions of allowed modules."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executor_work import run, work_of
from weft.config.sections import PythonSettings
from weft.executors import ExecutionFailed
from weft.executors.python import PythonFunction
from weft.tasks.record import JsonObject

JOBS = """
import asyncio, functools, os, subprocess, threading
from os import system
from os.path import join as imported
from jobs_for_tests.other import helper

loaded = True
ran = functools.partial(os.system)

def add(a, b=1):
    return {"sum": a + b}

async def add_later(a):
    await asyncio.sleep(0)
    return a + 1

def where():
    return threading.current_thread() is threading.main_thread()

def fail(text):
    raise LookupError(text)

def leave():
    raise SystemExit(4)

def confused():
    raise TypeError("from inside")

def wrapped(function):
    @functools.wraps(function)
    def wrapper(*arguments, **named):
        return function(*arguments, **named)
    return wrapper

@wrapped
def decorated(a):
    return a

class Box:
    def __init__(self):
        self.value = 1

    @staticmethod
    def open():
        return os.getcwd()
"""


@pytest.fixture(autouse=True)
def _modules(tmp_path: Path) -> Iterator[None]:
    """Create a package in the project's folder."""
    package = tmp_path / "jobs_for_tests"
    package.mkdir()
    (package / "__init__.py").write_text(JOBS)
    (package / "other.py").write_text("def helper(): return 'helped'\n")
    (package / "broken.py").write_text("import no_such_module_here\n")
    (package / "leaving.py").write_text("import sys; sys.exit(3)\n")
    (tmp_path / "jobs_for_tests_too.py").write_text("def job(): return 1\n")
    before = list(sys.path)
    yield
    sys.path[:] = before
    for name in [name for name in sys.modules if name.startswith("jobs_for_tests")]:
        del sys.modules[name]


@pytest.fixture
def executor(tmp_path: Path) -> PythonFunction:
    return PythonFunction(PythonSettings(modules=("jobs_for_tests",), path=(str(tmp_path),)))


def call(function: str, **arguments: object) -> JsonObject:
    return {"function": f"jobs_for_tests{function}", "arguments": arguments}


async def test_a_function_is_called_with_its_arguments(executor: PythonFunction) -> None:
    assert await run(executor, call(":add", a=1, b=2)) == {"sum": 3}
    assert await run(executor, call(":decorated", a=1)) == {"value": 1}


async def test_an_async_function_is_awaited(executor: PythonFunction) -> None:
    assert await run(executor, call(":add_later", a=1)) == {"value": 2}


async def test_a_blocking_function_runs_in_a_thread(executor: PythonFunction) -> None:
    assert await run(executor, call(":where")) == {"value": False}


async def test_an_allowed_module_allows_its_submodules(executor: PythonFunction) -> None:
    assert await run(executor, call(".other:helper")) == {"value": "helped"}


@pytest.mark.parametrize(
    ("function", "said"),
    [(":fail", "LookupError: oh"), (":leave", "SystemExit: 4"), (":confused", "TypeError: from inside")],
)
async def test_an_exception_fails_the_task_with_its_type_and_text(
    executor: PythonFunction, function: str, said: str
) -> None:
    arguments = {"text": "oh"} if function == ":fail" else {}

    with pytest.raises(ExecutionFailed) as caught:
        await run(executor, call(function, **arguments))

    assert said in caught.value.message
    assert not caught.value.is_permanent


async def test_by_default_no_module_is_allowed_and_the_text_says_how() -> None:
    with pytest.raises(
        ExecutionFailed, match=r'\[executors.python\] modules = \["jobs_for_tests"\]'
    ) as caught:
        await run(PythonFunction(PythonSettings()), call(":add", a=1))

    assert caught.value.is_permanent
    assert "jobs_for_tests" not in sys.modules


@pytest.mark.parametrize(
    "function",
    [
        "os:system",
        "subprocess:run",
        "builtins:eval",
        "jobs_for_tests_too:job",
        "jobs_for_test:add",
        "jobs_for_tests:os.system",
        "jobs_for_tests:os",
        "jobs_for_tests:system",
        "jobs_for_tests:imported",
        "jobs_for_tests:subprocess",
        "jobs_for_tests:helper",
        "jobs_for_tests:ran",
        "jobs_for_tests:Box.open",
        "jobs_for_tests:loaded",
        "jobs_for_tests:__builtins__",
        "jobs_for_tests:__loader__",
        "jobs_for_tests:__import__",
        "jobs_for_tests:eval",
        "jobs_for_tests:nothing",
        "jobs_for_tests.os:system",
        "jobs_for_tests.broken:x",
        "jobs_for_tests.leaving:x",
        "jobs_for_tests.nowhere:x",
        "jobs_for_tests",
        "jobs_for_tests:",
        ":add",
        "../jobs_for_tests:add",
        "jobs_for_tests:add\n",
        "",
    ],
)
async def test_nothing_else_can_be_called(executor: PythonFunction, function: str) -> None:
    for attempt in (run(executor, {"function": function}), executor.execute(work_of({"function": function}))):
        with pytest.raises(ExecutionFailed) as caught:
            await attempt
        assert caught.value.is_permanent


@pytest.mark.parametrize("arguments", [{}, {"c": 1}, {"a": 1, "c": 2}])
async def test_arguments_that_do_not_fit_fail_for_good(
    executor: PythonFunction, arguments: JsonObject
) -> None:
    with pytest.raises(ExecutionFailed, match="jobs_for_tests:add: ") as caught:
        await run(executor, call(":add", **arguments))

    assert caught.value.is_permanent


async def test_an_instance_is_no_result(executor: PythonFunction) -> None:
    with pytest.raises(ExecutionFailed, match="returned a value that is not JSON"):
        await run(executor, call(":Box"))


async def test_a_project_file_never_takes_the_place_of_a_library(tmp_path: Path) -> None:
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "__init__.py").write_text("def dumps(obj): return 'the false one'\n")
    sys.modules.pop("json.tool", None)
    executor = PythonFunction(PythonSettings(modules=("json",), path=(str(tmp_path),)))

    assert await run(executor, {"function": "json:dumps", "arguments": {"obj": 1}}) == {"value": "1"}
