"""The real aider, with a model on the loopback address that answers with a fixed edit.

Slow: aider takes seconds to start and is installed once, by `scripts/test-slow`.
"""

import json
import termios
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.aider_projects import KEY, RIGHT, WRONG, a_repository, edit, git, settings_for
from tests.command_line import Ran, started, wait_for, weft
from tests.model_server import ModelServer, fails, hangs, says
from tests.terminal import Terminal

pytestmark = pytest.mark.slow

START_SECONDS = 180.0
"""How long aider may take to start on a busy machine."""


@pytest.fixture
def project(tmp_path: Path, model_server: ModelServer) -> Path:
    """Return a repository in a folder whose weft.toml names the server."""
    (tmp_path / "weft.toml").write_text(settings_for(model_server))
    return a_repository(tmp_path)


def flow(**inputs: Any) -> str:
    task = {"name": "edit", "schemas": {"method": "aider"}, "inputs": {"prompt": "Fix add", **inputs}}
    return json.dumps([task])


def run_flow(project: Path, **inputs: Any) -> tuple[Ran, dict[str, Any]]:
    """How the flow ended, and its task."""
    db = str(project.parent / f"{project.name}.db")
    ran = weft("flow", "run", "-", "--json", db=db, cwd=project, stdin=flow(**inputs), SERVED_KEY=KEY)
    assert ran.out, ran.err
    shown = weft("tasks", "show", ran.json["root_id"], "--json", db=db, cwd=project)
    return ran, shown.json


def test_a_flow_has_aider_edit_and_commit(project: Path, model_server: ModelServer) -> None:
    before = git(project, "rev-parse", "HEAD")
    model_server.script(says(edit("calc.py", RIGHT)), says("fix: add adds"))

    ran, task = run_flow(project, files=["calc.py"])

    result = task["result"]
    assert ran.code == 0, task["error"]
    assert (project / "calc.py").read_text() == RIGHT
    assert "-    return a - b\n+    return a + b\n" in result["diff"]
    assert result["edited_files"] == ["calc.py"]
    assert result["commit"] == git(project, "rev-parse", "HEAD") != before
    assert git(project, "show", "--no-patch", "--format=%s", result["commit"]) == "fix: add adds"
    assert (result["exit_code"], result["mode"], result["model"]) == (0, "automatic", "served:good")
    usage = result["usage"]
    assert usage["cost"] == pytest.approx((usage["input_tokens"] + 2 * usage["output_tokens"]) / 1e6)
    assert usage["input_tokens"] > 0
    assert "#### Fix add" in result["transcript"]
    assert "I change it." in result["transcript"]
    assert git(project, "status", "--porcelain") == ""  # it left nothing else behind
    assert KEY not in json.dumps(task)
    assert {request.headers["authorization"] for request in model_server.requests} == {f"Bearer {KEY}"}


def test_the_language_calls_the_shipped_template(project: Path, model_server: ModelServer) -> None:
    model_server.script(says(edit("calc.py", RIGHT)), says("fix: add adds"))
    program = '(aider_automatic "/run touch ran.txt" :file_context (list "calc.py"))'

    ran = weft("eval", "--json", "--library", "weft:aider", program, db="unused", cwd=project, SERVED_KEY=KEY)

    assert ran.code == 0, ran.err
    value = ran.json["value"]
    assert value["parsedContent"]["commit"] == git(project, "rev-parse", "HEAD")
    assert "+    return a + b" in value["content"]
    assert ran.json["usage"]["cost"] > 0
    assert not (project / "ran.txt").exists()  # a prompt is never a command of aider's
    asked = model_server.requests[0].body["messages"][-1]["content"]
    assert "Task: /run touch ran.txt" in asked


def test_without_a_repository_nothing_is_committed(tmp_path: Path, model_server: ModelServer) -> None:
    (tmp_path / "weft.toml").write_text(settings_for(model_server))
    (tmp_path / "calc.py").write_text(WRONG)
    model_server.script(says(edit("calc.py", RIGHT) + edit("more.py", "x = 1\n")))

    ran, task = run_flow(tmp_path, files=["calc.py", "more.py"])

    assert ran.code == 0, task["error"]
    assert task["result"]["commit"] is None
    assert task["result"]["edited_files"] == ["calc.py", "more.py"]
    assert "--- /dev/null\n+++ b/more.py" in task["result"]["diff"]
    assert not (tmp_path / ".git").exists()


def test_a_model_cannot_have_it_write_where_it_may_not(project: Path, model_server: ModelServer) -> None:
    outside = project.parent / f"{project.name}-outside.txt"
    settings = (project / "weft.toml").read_text()
    hook = project / ".git" / "hooks" / "pre-commit"
    for path in (f"../{outside.name}", str(hook), "weft.toml", ".aider.conf.yml"):
        model_server.script(says(edit(path, "broken\n")))
    (project / ".env").write_text("OPENAI_API_BASE=http://127.0.0.1:9/\n")  # would take the key elsewhere

    for _ in range(4):
        run_flow(project, files=["calc.py"])

    assert len(model_server.requests) >= 4
    assert not outside.exists()
    assert not hook.exists()
    assert (project / "weft.toml").read_text() == settings
    assert not (project / ".aider.conf.yml").exists()


def test_a_model_that_hangs_is_timed_out_and_leaves_no_process(
    project: Path, model_server: ModelServer
) -> None:
    model_server.always(hangs())
    db = str(project.parent / "hanging.db")

    with started(
        "flow", "run", "-", "--json", db=db, cwd=project, stdin=flow(timeout_seconds=60.0), SERVED_KEY=KEY
    ) as process:
        model_server.wait_until(lambda: len(model_server.requests) > 0)
        (aider,) = [
            child
            for child in psutil.Process(process.pid).children(recursive=True)
            if "launcher.py" in " ".join(child.cmdline())
        ]
        assert KEY not in " ".join(aider.cmdline())
        out, _ = process.communicate(timeout=120)

    assert process.returncode == 1
    shown = weft("tasks", "show", json.loads(out)["root_id"], "--json", db=db).json
    assert "aider did not end within 60 s" in shown["error"]
    wait_for(lambda: not aider.is_running())


def test_a_model_that_fails_fails_the_task(project: Path, model_server: ModelServer) -> None:
    model_server.always(fails(401, "who are you"))

    ran, task = run_flow(project, files=["calc.py"])

    assert ran.code == 1
    assert "aider got no response from the model" in task["error"]
    assert git(project, "log", "--format=%s") == "Begin"


def test_a_person_gets_the_terminal_and_gives_it_back(project: Path, model_server: ModelServer) -> None:
    model_server.script(says(edit("calc.py", RIGHT)), says("fix: add adds"))
    program = '(get (aider_interactive "Fix add" :file_context (list "calc.py")) "commit")'

    with Terminal(
        "eval", "--library", "weft:aider", program, folder=project, SERVED_KEY=KEY, WEFT_DB="unused"
    ) as terminal:
        terminal.patience_seconds = START_SECONDS
        before = termios.tcgetattr(terminal.end)
        terminal.expect("Fix add")  # in the input line, where it can be changed
        terminal.type("\r")
        terminal.expect("Applied edit to calc.py")
        terminal.expect("Commit ")
        terminal.type("/exit\r")
        assert terminal.exit_code() == 0
        after = termios.tcgetattr(terminal.end)

    assert before[:4] == after[:4]
    assert git(project, "rev-parse", "HEAD") in terminal.seen
    assert (project / "calc.py").read_text() == RIGHT


def test_the_embedded_model_answers_it(project: Path) -> None:
    db = str(project.parent / "embedded.db")
    document = flow(
        model="local:qwen", prompt="add(a, b) must return the sum of a and b. Correct it.", files=["calc.py"]
    )

    with started("flow", "run", "-", "--json", db=db, cwd=project, stdin=document) as process:
        out, _ = process.communicate(timeout=900)  # it writes slowly, and is asked again if it is no edit

    shown = weft("tasks", "show", json.loads(out)["root_id"], "--json", db=db).json
    assert process.returncode == 0, shown["error"]
    assert shown["result"]["usage"]["cost"] == 0.0
    assert shown["result"]["usage"]["output_tokens"] > 0
