"""What happens to a run when nobody reads what it shows: nothing."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_signals import gated
from tests.command_line import environment_of, on_terminal, read_until, started, wait_for, weft
from tests.terminal import Terminal


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "weft.db")


@pytest.fixture
def unread() -> Iterator[int]:
    """Yield the write end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


def status_of(db: str) -> str:
    (task,) = weft("tasks", "list", "--name", "gated", "--json", db=db).json["tasks"]
    status: str = task["status"]
    return status


@pytest.mark.parametrize("streams", [["stdout"], ["stderr"], ["stdout", "stderr"]])
@pytest.mark.parametrize("code", [0, 1])
def test_the_exit_code_is_that_of_the_flow(
    db: str, tmp_path: Path, unread: int, streams: list[str], code: int
) -> None:
    (tmp_path / "go").touch()
    unread_streams: dict[str, Any] = dict.fromkeys(streams, unread)
    document = json.dumps([{"name": "root"}, gated(tmp_path, code=code)])
    with started("flow", "run", "-", db=db, stdin=document, **unread_streams) as process:
        process.communicate(timeout=60)

    assert process.returncode == code
    assert status_of(db) == ("failed" if code else "completed")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
@pytest.mark.parametrize("code", [0, 1])
def test_closed_streams_change_nothing(db: str, tmp_path: Path, closed: str, code: int) -> None:
    (tmp_path / "go").touch()
    (tmp_path / "flow.json").write_text(json.dumps([gated(tmp_path, code=code)]))
    line = f'exec "{sys.executable}" -m weft flow run "{tmp_path}/flow.json" {closed}'
    done = subprocess.run(
        ["sh", "-c", line], env=environment_of(db), capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert status_of(db) == ("failed" if code else "completed")


def test_a_reader_that_goes_away_does_not_stop_the_flow(db: str, tmp_path: Path) -> None:
    document = json.dumps([{"name": "root"}, gated(tmp_path)])
    with started("flow", "run", "-", db=db, stdin=document) as process:
        read_until(process.stderr, "started    gated")
        assert process.stderr is not None
        assert process.stdout is not None
        process.stderr.close()
        process.stdout.close()
        (tmp_path / "go").touch()

        assert process.wait(timeout=60) == 0
    assert status_of(db) == "completed"


def test_a_terminal_that_goes_away_does_not_stop_the_flow(db: str, tmp_path: Path) -> None:
    (tmp_path / "flow.json").write_text(json.dumps([{"name": "root"}, gated(tmp_path)]))
    with on_terminal("flow", "run", tmp_path / "flow.json", db=db) as (process, terminal):
        wait_for((tmp_path / "begun").exists)
        os.close(terminal)
        (tmp_path / "go").touch()

        assert process.wait(timeout=60) == 0
    assert status_of(db) == "completed"


def test_a_process_whose_words_nobody_reads_can_be_stopped(db: str, tmp_path: Path, unread: int) -> None:
    with started("flow", "run", "-", db=db, stdin=json.dumps([gated(tmp_path)]), stderr=unread) as process:
        wait_for((tmp_path / "begun").exists)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    assert process.returncode == 130
    (task,) = weft("tasks", "list", "--json", db=db).json["tasks"]
    assert "task.released" in weft("tasks", "events", task["id"], db=db).out


HOSTILE = r'(script :argv ("printf" "a\\033]52;c;aGk=\\007\\302\\233b\\342\\200\\256c\\n"))'


@pytest.mark.parametrize("command", ["eval", "run"])
def test_a_terminal_is_not_steered_by_a_result(tmp_path: Path, command: str) -> None:
    (tmp_path / "p.sexp").write_text(HOSTILE)
    argument = HOSTILE if command == "eval" else "p.sexp"
    with Terminal(command, argument, folder=tmp_path) as terminal:
        terminal.expect(r"a\x1b]52;c;aGk=\x07\x9bb\u202ec")
        assert terminal.exit_code() == 0


def test_a_pipe_gets_the_result_as_it_is_and_json_escapes_it(tmp_path: Path) -> None:
    db = str(tmp_path / "weft.db")

    assert weft("eval", HOSTILE, db=db).out == "a\x1b]52;c;aGk=\x07\x9bb\u202ec\n"
    shown = weft("eval", HOSTILE, "--json", db=db)
    assert r"a\u001b]52;c;aGk=\u0007\u009bb\u202ec" in shown.out
    assert shown.json["value"]["content"] == "a\x1b]52;c;aGk=\x07\x9bb\u202ec\n"


def test_an_exported_flow_holds_no_control_characters(tmp_path: Path, db: str) -> None:
    document = json.dumps([{"name": "x", "inputs": {"text": "\x9b\u202e"}}])
    root_id = weft("flow", "submit", "-", "--json", db=db, stdin=document).json["root_id"]
    weft("tasks", "export", root_id, "-o", str(tmp_path / "out.json"), db=db)

    for text in (weft("tasks", "export", root_id, db=db).out, (tmp_path / "out.json").read_text()):
        assert r"\u009b\u202e" in text
        assert json.loads(text)["task"]["inputs"] == {"text": "\x9b\u202e"}
