"""`weft run` does its work once: it parses the program, reads weft.toml and opens the store a single time."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from weft.cli.invoke import run_command
from weft.cli.main import weft
from weft.config import settings
from weft.effects.resources import ProjectResources
from weft.language import reading
from weft.llm.protocol import StaticModels
from weft.runs import program
from weft.store.sqlite.store import SqliteStore
from weft.testing.scripted_model import ScriptedModel

GREET = '(deftask greet ((name string)) :instructions "Say hello to {{name}}")\n'


@pytest.fixture
def counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count parsed programs, reads of weft.toml and opened stores, in a project of its own."""
    found: Counter[str] = Counter()

    def counted(holder: Any, name: str, key: Callable[..., str]) -> None:
        real = getattr(holder, name)

        def call(*arguments: Any, **named: Any) -> Any:
            found[key(*arguments)] += 1
            return real(*arguments, **named)

        monkeypatch.setattr(holder, name, call)

    monkeypatch.setattr(program, "_parsed", {})
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WEFT_DB", raising=False)
    Path("weft.toml").write_text('[models]\ndefault = "openai:gpt-4o"\n')
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    monkeypatch.setattr(
        ProjectResources, "_configured_models", lambda _: StaticModels(ScriptedModel(lambda _: "hello"))
    )
    counted(reading, "read_program", lambda source: source.name)
    counted(settings, "_read_document", lambda path: path.name)
    counted(SqliteStore, "open", lambda path, **_: "store")
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield found
    for number, handler in before.items():
        signal.signal(number, handler)  # the command has set its own


def test_a_run_parses_its_program_reads_weft_toml_and_opens_the_store_once(
    counts: Counter[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("one.sexp").write_text(GREET + "(greet name)")

    assert run_command(weft, ["run", "one.sexp", "name=Ada"]) == 0
    assert capsys.readouterr().out == "hello\n"
    assert counts == {"one.sexp": 1, "weft.toml": 1, "store": 1}


def test_a_run_with_a_registered_template_opens_the_store_once(counts: Counter[str]) -> None:
    Path("library.sexp").write_text(GREET)
    Path("one.sexp").write_text('(greet "Ada")')
    assert run_command(weft, ["library", "add", "library.sexp"]) == 0
    counts.clear()

    assert run_command(weft, ["run", "one.sexp"]) == 0
    assert counts == {"one.sexp": 1, "greet@1": 1, "weft.toml": 1, "store": 1}


def test_a_run_that_has_ended_is_not_performed_again(
    counts: Counter[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("one.sexp").write_text(GREET + "(greet name)")
    run_command(weft, ["run", "one.sexp", "name=Ada"])
    root_id = capsys.readouterr().err.split()[1]
    counts.clear()

    assert run_command(weft, ["run", "--resume", root_id]) == 0
    assert "nothing is performed again" in capsys.readouterr().err
    assert counts == {"weft.toml": 1, "store": 1}


def test_a_name_that_is_an_input_and_a_secret_is_refused(
    counts: Counter[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("one.sexp").write_text(GREET + "(greet name)")

    assert run_command(weft, ["run", "one.sexp", "name=1", "--secret", "name"]) == 2
    assert "'name' is given twice" in capsys.readouterr().err
    assert not counts["store"]


def test_json_after_two_dashes_is_an_argument(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(weft, ["tasks", "show", "--", "--json"]) == 2
    assert capsys.readouterr().err.startswith("error: invalid-task-id")


def test_a_flow_that_has_ended_does_not_show_its_old_events_again(
    counts: Counter[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("flow.json").write_text('[{"name": "only"}]')
    run_command(weft, ["flow", "run", "flow.json"])
    first = capsys.readouterr().err
    assert "completed  only" in first

    assert run_command(weft, ["flow", "run", first.split()[1]]) == 0
    assert "only" not in capsys.readouterr().err


COUNT_MODULES = """
import sys
from weft.cli.invoke import run_command
from weft.cli.main import weft
from weft.effects.resources import ProjectResources

class Models:
    async def find(self, model, provider=None):
        from weft.testing.scripted_model import ScriptedModel

        loaded.extend(name for name in sys.modules if name.partition(".")[0] == "weft")
        return ScriptedModel(lambda payload: "hello")

    async def close(self): ...

loaded = []
ProjectResources._configured_models = lambda self: Models()
code = run_command(weft, ["run", "one.sexp", "name=Ada", "--db", ":memory:"])
print(code, len(loaded))
"""


def test_a_run_of_one_step_loads_at_most_300_modules(tmp_path: Path) -> None:
    (tmp_path / "one.sexp").write_text(GREET + "(greet name)")
    environment = {**os.environ, "OPENAI_API_KEY": "unused", "WEFT_MODEL": "openai:gpt-4o"}
    ran = subprocess.run(
        [sys.executable, "-c", COUNT_MODULES],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip

    code, loaded = map(int, ran.stdout.splitlines()[-1].split())
    assert code == 0, ran.stderr
    assert 100 < loaded <= 300
