"""The terminal goes to an interactive aider and comes back; a stand-in does what a broken one would."""

import termios
from pathlib import Path

import pytest

from tests.aider_projects import a_repository
from tests.aider_stand_in import a_stand_in
from tests.command_line import weft
from tests.terminal import Terminal

PROGRAM = """
(begin
  (try (aider_interactive "Fix add" :file_context (list "calc.py"))
       (catch error (log-message (get-in error (list "notes" "error" "message")))))
  (get (system:request_user_input :question "whose terminal?") "answer"))
"""

RAW = """import tty
tty.setraw(0)
sys.stdout.write("\\\\x1b[?25l" + InputOutput().placeholder + str(os.getpgrp() == os.tcgetpgrp(0)))
sys.stdout.flush()
os.read(0, 1)
os.kill(os.getpid(), 9)"""

WAITS = """try:
    print("waiting", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    print("it was for me", flush=True)"""


def project(folder: Path, act: str) -> Path:
    root = a_repository(folder / "root")
    program = a_stand_in(folder, act)
    (root / "weft.toml").write_text(f"""
[models]
default = "served:good"
[models.providers.served]
base_url = "http://127.0.0.1:9/v1"
[executors.aider]
program = "{program}"
""")
    return root


def session(folder: Path, act: str) -> Terminal:
    root = project(folder, act)
    return Terminal("eval", "--library", "weft:aider", PROGRAM, folder=root, WEFT_DB="unused")


def test_one_that_is_killed_leaves_a_sane_terminal(tmp_path: Path) -> None:
    with session(tmp_path, RAW) as terminal:
        before = termios.tcgetattr(terminal.end)
        terminal.expect("Fix addTrue")  # its input line begins with the query; the foreground is its own
        terminal.type("x")
        terminal.expect("aider exited with code -9")
        terminal.expect("whose terminal?\r\n> ")
        assert termios.tcgetattr(terminal.end)[:4] == before[:4]
        terminal.type("mine\n")
        terminal.expect("mine\r\n")  # it echoes again
        terminal.expect("mine\r\n")  # and weft has read it
        assert terminal.exit_code() == 0


def test_ctrl_c_is_for_the_session_and_not_for_weft(tmp_path: Path) -> None:
    with session(tmp_path, WAITS) as terminal:
        terminal.expect("waiting")
        terminal.type("\x03")
        terminal.expect("it was for me")
        terminal.expect("whose terminal?\r\n> ")
        terminal.type("mine\n")
        assert terminal.exit_code() == 0


def test_without_a_terminal_it_fails_and_says_why(tmp_path: Path) -> None:
    root = project(tmp_path, WAITS)

    ran = weft("eval", "--library", "weft:aider", PROGRAM, db="unused", cwd=root)

    assert "an interactive aider needs a terminal" in ran.err


@pytest.mark.parametrize(("path", "said"), [("/nowhere", "not installed; version"), (None, "/aider")])
def test_doctor_says_whether_aider_is_there(tmp_path: Path, path: str | None, said: str) -> None:
    program = a_stand_in(tmp_path)

    ran = weft(
        "doctor",
        "--json",
        db=str(tmp_path / "none.db"),
        cwd=tmp_path,
        PATH=path or str(program.parent),
        WEFT_CACHE=str(tmp_path),
    )

    (check,) = [check for check in ran.json["checks"] if check["name"] == "aider"]
    assert check["ok"]
    assert said in check["found"]
