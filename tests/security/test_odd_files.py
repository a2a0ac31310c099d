"""Files that are not ordinary ones: whoever names one on the command line is told, and waits for nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import weft


@pytest.mark.parametrize(
    "command",
    [
        ("check", "{path}.sexp"),
        ("run", "{path}.sexp"),
        ("run", "{path}.py"),
        ("run", "good.sexp", "x=@{path}.sexp"),
        ("eval", "--file", "{path}.sexp"),
        ("eval", "1", "--library", "{path}.sexp"),
        ("print", "{path}.sexp"),
        ("flow", "submit", "{path}.sexp"),
        ("flow", "run", "{path}.json"),
        ("library", "add", "{path}.sexp"),
        ("check", "schema.sexp"),
        ("run", "schema.sexp"),
    ],
    ids=" ".join,
)
def test_a_named_pipe_as_a_file_is_refused_at_once(tmp_path: Path, command: tuple[str, ...]) -> None:
    for suffix in ("sexp", "py", "json"):
        os.mkfifo(tmp_path / f"pipe.{suffix}")
    (tmp_path / "good.sexp").write_text("(list x)")
    (tmp_path / "schema.sexp").write_text('(task :instructions "Hi" :schema "./pipe.json")')

    ran = weft(*(part.format(path="pipe") for part in command), db=str(tmp_path / "weft.db"), cwd=tmp_path)

    assert ran.code == 2, ran.err
    assert "not an ordinary file" in ran.out + ran.err


def test_a_named_pipe_as_the_file_of_mcp_servers_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".mcp.json")

    ran = weft("doctor", db=str(tmp_path / "weft.db"), cwd=tmp_path)

    assert ran.code == 1
    assert "not an ordinary file" in ran.out


def test_what_a_shell_hands_over_is_read(tmp_path: Path) -> None:
    (tmp_path / "flow.json").write_text('[{"name": "a", "schemas": {"method": "noop"}}]')
    script = """
"$PYTHON" -m weft flow submit <(cat flow.json) && "$PYTHON" -m weft flow submit /dev/stdin < flow.json &&
"$PYTHON" -m weft run --ephemeral --format sexp <(echo '(+ 1 2)')
"""

    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "WEFT_DB": str(tmp_path / "weft.db"), "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("stored") == 2
    assert done.stdout.endswith("3\n")
