"""Executors of other packages."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.executors import ExecutorRegistry, UnknownExecutor
from weft.executors.builtin import built_in_registry, register_plugins
from weft.executors.registry import decorated

MODULE = """
from weft.executors import executor

@executor("crawl", summary="Crawls.")
async def crawl(inputs):
    return {}

async def plain(inputs):
    "Does it plainly."

class Thing:
    id = "thing"
    type = "local"
    summary = ""
    input_schema = None

    async def execute(self, work):
        return {}

thing = Thing()
number = 7
"""

ENTRY_POINTS = """[weft.executors]
crawl = plugin_for_tests:crawl
plain = plugin_for_tests:plain
thing = plugin_for_tests:thing
misnamed = plugin_for_tests:thing
http = plugin_for_tests:plain
number = plugin_for_tests:number
missing = plugin_for_tests.nowhere:thing
broken = broken_plugin_for_tests:thing
exits = exiting_plugin_for_tests:thing
interrupts = interrupting_plugin_for_tests:thing
raises = raising_plugin_for_tests:thing
"""


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ExecutorRegistry]:
    """Yield the built-in executors and the plug-ins of an installed package."""
    info = tmp_path / "plugin_for_tests-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin-for-tests\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "plugin_for_tests.py").write_text(MODULE)
    (tmp_path / "broken_plugin_for_tests.py").write_text("raise RuntimeError('no licence')")
    (tmp_path / "exiting_plugin_for_tests.py").write_text("raise SystemExit('not on this machine')")
    (tmp_path / "interrupting_plugin_for_tests.py").write_text("raise KeyboardInterrupt('as if')")
    (tmp_path / "raising_plugin_for_tests.py").write_text(
        "class Odd(BaseException): pass\nraise Odd('of its own kind')"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(decorated, "_registered", {})
    registry = built_in_registry(base=decorated)
    register_plugins(registry)
    yield registry
    sys.modules.pop("plugin_for_tests", None)


@pytest.mark.parametrize("executor_id", ["crawl", "plain", "thing"])
def test_a_plug_in_is_registered_by_the_name_of_its_entry_point(
    registry: ExecutorRegistry, executor_id: str
) -> None:
    assert registry.get(executor_id).id == executor_id


@pytest.mark.parametrize(
    ("executor_id", "reason"),
    [
        ("misnamed", "the entry point 'misnamed' must have the id of its executor, 'thing'"),
        ("number", "7 is neither a function nor a class"),
        ("missing", "ModuleNotFoundError"),
        ("broken", "RuntimeError: no licence"),
        ("exits", "SystemExit: not on this machine"),
        ("interrupts", "KeyboardInterrupt: as if"),
        ("raises", "Odd: of its own kind"),
    ],
)
def test_a_plug_in_that_fails_is_skipped_listed_and_explained(
    registry: ExecutorRegistry, executor_id: str, reason: str
) -> None:
    (listed,) = (entry for entry in registry.describe() if entry.id == executor_id)

    assert reason in (listed.error or "")
    with pytest.raises(UnknownExecutor, match=f"'{executor_id}' .*could not be loaded.*{reason[-10:]}"):
        registry.get(executor_id)


def test_a_plug_in_cannot_replace_a_built_in_executor(registry: ExecutorRegistry) -> None:
    assert type(registry.get("http")).__module__ == "weft.executors.http"


def test_a_skipped_plug_in_is_logged(registry: ExecutorRegistry, caplog: pytest.LogCaptureFixture) -> None:
    register_plugins(ExecutorRegistry())

    assert "executor plug-in skipped: broken_plugin_for_tests:thing: RuntimeError: no licence" in caplog.text


INTERRUPTED = """
import os, signal, sys
from pathlib import Path
from weft.executors import ExecutorRegistry
from weft.executors.builtin import register_plugins
try:
    register_plugins(ExecutorRegistry())
except KeyboardInterrupt:
    sys.exit(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_ctrl_c_while_a_plug_in_is_loaded_is_not_taken_for_its_fault(tmp_path: Path) -> None:
    info = tmp_path / "slow_plugin_for_tests-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-plugin-for-tests\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[weft.executors]\nslow = slow_plugin_for_tests:thing\n")
    (tmp_path / "slow_plugin_for_tests.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfor _ in range(1000): pass"
    )

    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stderr) == (1, "")
