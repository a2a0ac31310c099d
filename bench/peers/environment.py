"""Where each engine runs: a virtual environment with pinned packages, and variables that keep it quiet."""

import os
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).parent / "requirements"

QUIET = {
    "DO_NOT_TRACK": "1",  # Prefect's client
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true",
    "PREFECT_LOGGING_LEVEL": "ERROR",
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
}
"""No engine reports to its makers, and none spends its time on log lines."""


def default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "weft-bench" / "peers"


def python_of(name: str, cache: Path, *, is_install: bool) -> Path | None:
    """Return the Python of an engine's environment; None when it is not there and not to be installed.

    An environment whose requirements have changed counts as not there.
    """
    folder = cache / name
    python = folder / "bin" / "python"
    wanted = (REQUIREMENTS / f"{name}.txt").read_text()
    # Written last, so that an interrupted install is repeated.
    installed = folder / "installed.txt"
    if installed.exists() and installed.read_text() == wanted:
        return python
    if not is_install:
        return None
    print(f"installing {name} in {folder}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "-r", str(REQUIREMENTS / f"{name}.txt")], check=True, stdout=sys.stderr)
    installed.write_text(wanted)
    return python


def variables(root: Path, scratch: Path) -> dict[str, str]:
    """Return the environment variables of a script.

    Home and temporary files are in a folder of the run, so that nobody's own settings are read and nothing is
    left behind.
    """
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "PYTHONPATH": str(root),
        **QUIET,
    }
