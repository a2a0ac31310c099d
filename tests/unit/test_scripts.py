"""The scripts can be read by bash, and what they name is there."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = [path for path in sorted((ROOT / "scripts").iterdir()) if path.suffix == "" and path.is_file()]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_has_no_syntax_error(path: Path) -> None:
    done = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert path.stat().st_mode & 0o111


def test_the_files_that_the_demo_names_are_there() -> None:
    text = (ROOT / "scripts" / "demo").read_text()
    named = set(re.findall(r"\b(?:examples|requirements|scripts)/[\w.-]+", text))

    assert {"examples/inspect.sexp", "requirements/base.txt"} <= named
    assert {name for name in named if not (ROOT / name).exists()} == set()


def test_the_demo_installs_nothing_for_tests() -> None:
    text = (ROOT / "scripts" / "demo").read_text()

    assert not re.search(r"requirements/check|\[(?:check|test)\]", text)
    assert ".venv-demo/" in (ROOT / ".gitignore").read_text().splitlines()
