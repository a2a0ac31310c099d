"""The pages on testing and secrets: what they show is run, as somebody would who follows them."""

import re
import subprocess
import sys
from pathlib import Path

from tests.command_line import environment_of
from tests.model_server import ModelServer, gives_json

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
NO_KEYS = {"OPENAI_API_KEY": "", "ANTHROPIC_API_KEY": "", "GEMINI_API_KEY": "", "GOOGLE_API_KEY": ""}
NO_PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""The page needs none of pytest's plug-ins, and to import ours takes longer than to run its tests."""


def examples(page: str) -> dict[str, str]:
    """Return the files that a page shows, by the names in their first lines."""
    blocks = re.findall(r"```(?:python|xml)\n((?:# |<!-- )(\S+)(?: -->)?\n.*?)```", page, re.DOTALL)
    return {name: text for text, name in blocks}


def run_tests(folder: Path, *names: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            *names,
        ],
        cwd=folder,
        env={**environment_of(str(folder / "weft.db")), "CI": "", **NO_KEYS, **NO_PLUGINS, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_tests_of_the_page_on_testing_pass_without_a_key(
    tmp_path: Path, model_server: ModelServer
) -> None:
    files = examples((HOWTO / "test-templates.md").read_text())
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert sorted(files) == ["review.xml", "test_handler.py", "test_recorded.py", "test_review.py"]

    unrecorded = run_tests(tmp_path, CI="1")
    assert "3 passed" in unrecorded.stdout, unrecorded.stdout
    assert "nothing is recorded in cassettes/review.jsonl" in unrecorded.stdout

    (tmp_path / "weft.toml").write_text(
        f'[models]\ndefault = "here:m"\n[models.providers.here]\nkind = "openai"\n'
        f'base_url = "{model_server.base_url}"\napi_key_env = "HERE_API_KEY"\n'
    )
    model_server.always(gives_json({"ok": True}))
    recorded = run_tests(tmp_path, "test_recorded.py", HERE_API_KEY="sk-only-once-0123")
    assert recorded.returncode == 0, recorded.stdout
    assert len(model_server.requests) == 1
    assert "sk-only-once" not in (tmp_path / "cassettes" / "review.jsonl").read_text()

    replayed = run_tests(tmp_path, CI="1")
    assert replayed.returncode == 0, replayed.stdout
    assert run_tests(tmp_path, "test_recorded.py").returncode == 0  # `auto`, with nothing new to ask
    assert len(model_server.requests) == 1


def test_the_example_of_the_page_on_secrets_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (HOWTO / "secrets.md").read_text(), re.DOTALL)
    code = "\n".join(line.removeprefix("  ") for line in example.splitlines())

    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_the_commands_of_the_page_on_telemetry_do_what_it_says(tmp_path: Path) -> None:
    assert "OTEL_TRACES_EXPORTER=console weft eval '(+ 1 2)'" in (HOWTO / "telemetry.md").read_text()

    done = subprocess.run(
        [sys.executable, "-m", "weft", "eval", "(+ 1 2)"],
        env=environment_of(str(tmp_path / "weft.db"), OTEL_TRACES_EXPORTER="console"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "3\n"
    assert "invoke_workflow" in done.stderr
