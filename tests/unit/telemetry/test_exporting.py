"""Spans of the command line."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import environment_of
from weft.telemetry.exporting import set_up

FLOW = '[{"name": "only", "schemas": {"method": "noop"}}]'


def weft(
    folder: Path, *arguments: str, stdin: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "weft", *arguments],
        input=stdin,
        cwd=folder,
        env=environment_of(str(folder / "weft.db"), **environment),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


def test_an_evaluation_is_told_where_the_environment_says(tmp_path: Path) -> None:
    ran = weft(tmp_path, "eval", "(+ 1 2)", OTEL_TRACES_EXPORTER="console")

    assert ran.stdout == "3\n"
    assert '"name": "invoke_workflow"' in ran.stderr
    assert '"service.name": "weft"' in ran.stderr


def test_a_flow_is_told_where_the_environment_says(tmp_path: Path) -> None:
    ran = weft(
        tmp_path, "flow", "run", "-", stdin=FLOW, OTEL_TRACES_EXPORTER="console", OTEL_SERVICE_NAME="mine"
    )

    assert '"name": "execute_task only"' in ran.stderr
    assert '"service.name": "mine"' in ran.stderr


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("opentelemetry.sdk.trace", "weft[telemetry]"),
        ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry-exporter-otlp-proto-http"),
    ],
)
def test_what_is_not_installed_is_told(missing: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)

    assert said in (set_up({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}) or "")


def test_an_exporter_that_is_not_known_is_told() -> None:
    said = set_up({"OTEL_TRACES_EXPORTER": "nonsense"}) or ""

    assert "OTEL_TRACES_EXPORTER is 'nonsense'; weft supports otlp, console and none" in said
    assert set_up({"OTEL_TRACES_EXPORTER": "none"}) is None


def test_nothing_is_told_otherwise(tmp_path: Path) -> None:
    for environment in ({}, {"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "console"}):
        ran = weft(tmp_path, "eval", "(+ 1 2)", **environment)

        assert (ran.stdout, ran.stderr) == ("3\n", "")
