"""Every module of `bench/` runs: the package is walked, so that a new one cannot be forgotten."""

import ast
import functools
import importlib
import json
import subprocess
import sys
from pathlib import Path

import bench
import pytest
from bench.engine.graphs import SHAPES
from bench.measure import SCRIPTS, Benchmark, Figure, LeftOut, module_names
from bench.peers.main import PEERS, best_of

from tests.shared_graphs import GRAPHS

FOLDER = Path(bench.__file__).parent
COMMANDS = {"bench.__main__", "bench.compare"}
"""Commands that measure nothing themselves; they have tests of their own."""
NEED_ANOTHER_ENVIRONMENT = {"bench.peers.main"}
"""What may leave out every figure here: other engines are not installed beside weft."""

PACKAGE = {
    "loom/weaving.py": "def throw_shuttle(thread):\n    return thread\n",
    "loom/reading.py": "def read_pattern(path):\n    return path.read_text()\n",
}
QUESTION = "Throw the shuttle faster"
LOOM = [
    {"id": "warp", "parents": [], "runtime_seconds": 1.0},
    {"id": "weave", "parents": ["warp"], "runtime_seconds": 2.0},
]
"""A workflow for where the recorded ones of the shared data are not."""


def source_of(name: str) -> Path:
    path = FOLDER.joinpath(*name.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@functools.cache
def imported_by(name: str) -> set[str]:
    """Return the modules that a module imports, without importing it."""
    found = set()
    for node in ast.walk(ast.parse(source_of(name).read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def has_main(name: str) -> bool:
    return 'if __name__ == "__main__":' in source_of(name).read_text()


@pytest.fixture
def package(tmp_path: Path) -> list[str]:
    """Options for questions about a package that is already unpacked."""
    for path, text in PACKAGE.items():
        file = tmp_path / "cache" / "loom-1.0" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    asked = {"query": QUESTION, "files": ["loom/weaving.py"]}
    described = {"package": "loom", "version": "1.0", "root": "loom/", "queries": [asked]}
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "loom.json").write_text(json.dumps(described))
    return ["--data", str(tmp_path / "data"), "--cache", str(tmp_path / "cache")]


@pytest.fixture
def repository(tmp_path: Path) -> str:
    """Return a git repository with a commit that changes one file."""
    folder = tmp_path / "repository"
    for path, text in PACKAGE.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@localhost"]
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    for subject in ("Begin", QUESTION):
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "--quiet", "--no-gpg-sign", "-m", subject], check=True)
        (folder / "loom/weaving.py").write_text("def throw_shuttle(thread):\n    return 2 * thread\n")
    return str(folder)


@pytest.fixture
def options(request: pytest.FixtureRequest, name: str) -> list[str]:
    """Return the options, besides `--smallest`, of a benchmark whose defaults need something large."""
    match name:
        case "bench.embedded.json_fit":
            return ["--models", "smollm2"]
        case "bench.embedded.judge":
            return ["--model", "scripted"]
        case "bench.retrieval.__main__":
            repository: str = request.getfixturevalue("repository")
            return [*request.getfixturevalue("package"), repository]
        case "bench.retrieval.rerank":
            return [*request.getfixturevalue("package"), "--model", "scripted"]
        case "bench.engine.makespan" if not GRAPHS:
            patched: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
            patched.setattr("bench.engine.makespan.GRAPHS", ["loom"])
            patched.setattr("bench.engine.makespan.recorded_tasks", lambda _: LOOM)
        case "bench.peers.main":
            return ["--cache", str(request.getfixturevalue("tmp_path"))]
        case "bench.store.postgresql":
            server: str = request.getfixturevalue("postgresql")
            request.getfixturevalue("monkeypatch").setenv("WEFT_TEST_POSTGRESQL", server)
    return []


@pytest.mark.parametrize("name", [name for name in module_names() if not name.startswith(f"{SCRIPTS}.")])
def test_every_module_is_a_benchmark_that_runs_or_serves_one(name: str, options: list[str]) -> None:
    if name in COMMANDS:
        return
    benchmark = getattr(importlib.import_module(name), "BENCHMARK", None)
    if benchmark is None:
        assert not has_main(name), f"{name} can be run, but has no BENCHMARK: nothing would run it"
        return

    assert isinstance(benchmark, Benchmark)
    assert has_main(name), f"python -m {name} would do nothing"
    found = benchmark.run(["--smallest", *options])
    figures = [each for each in found if isinstance(each, Figure)]
    assert figures or name in NEED_ANOTHER_ENVIRONMENT, found
    assert len({figure.what for figure in figures}) == len(figures), "results are kept by what they are"


@pytest.mark.parametrize("name", module_names())
def test_no_module_is_left_over(name: str) -> None:
    is_used = any(name in imported_by(other) for other in module_names() if other != name)
    assert is_used or has_main(name) or source_of(name).name == "__init__.py"


def test_an_engine_that_is_not_installed_is_left_out_in_one_line(tmp_path: Path) -> None:
    benchmark: Benchmark = importlib.import_module("bench.peers.main").BENCHMARK
    found = benchmark.run(["--smallest", "--cache", str(tmp_path)])

    assert [each.what for each in found if isinstance(each, LeftOut)] == [peer.name for peer in PEERS]
    assert all(len(str(each).splitlines()) == 1 and "--install" in str(each) for each in found)


@pytest.mark.parametrize("peer", [peer.name for peer in PEERS])
def test_a_script_of_another_engine_needs_only_that_engine_and_the_standard_library(peer: str) -> None:
    wanted = {name.partition(".")[0] for name in imported_by(f"{SCRIPTS}.{peer}")}

    assert wanted - sys.stdlib_module_names == {peer, "bench"}
    assert {"bench.engine.graphs", "bench.peers.measured"} >= {
        name for name in imported_by(f"{SCRIPTS}.{peer}") if name in module_names()
    }


def test_the_script_that_runs_weft_beside_others_reports_what_ran() -> None:
    version, measured = best_of(1, "weft", Path(sys.executable), next(iter(SHAPES)), 10, "full")

    assert version
    assert measured.tasks == 10
