"""A process is killed while a model waits for a person; another one goes on with the answer."""

import os
import signal
from pathlib import Path

import pytest

from tests.command_line import Process, started, weft
from tests.model_server import Exchange, ModelServer, asks_for, hangs, says, write_settings

KEY = "sk-test-0123456789abcdef"

PROGRAM = """
(deftask look () :instructions "look" :tools ("system:request_user_input"))
(deftask think (x) :instructions "{{x}}")
(begin (think "begin") (parallel (look) (think "slow")))
"""


@pytest.fixture
def project(tmp_path: Path, model_server: ModelServer) -> Path:
    write_settings(tmp_path, model_server)
    (tmp_path / "program.sexp").write_text(PROGRAM)
    return tmp_path


class Answers:
    """A model that asks a person, and one that does not answer before it is told to."""

    def __init__(self) -> None:
        self.is_slow = True
        self.made: list[str] = []

    async def react(self, exchange: Exchange) -> None:
        last = exchange.request.body["messages"][-1]
        text = str(last["content"])
        self.made.append(text)
        if text == "look":
            await asks_for("system_request_user_input", {"question": "Which file?"})(exchange)
        elif text == "slow" and self.is_slow:
            await hangs()(exchange)
        else:
            await says(f"done with {text}")(exchange)


def test_a_session_goes_on_elsewhere_after_a_kill_and_repeats_no_model_call(
    project: Path, model_server: ModelServer
) -> None:
    answers = Answers()
    model_server.always(answers.react)
    db = str(project / "weft.db")
    with started("run", "program.sexp", db=db, cwd=project, SERVED_KEY=KEY) as process:
        _read_until(process, "Which file?")
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
    answers.is_slow = False
    root_id = weft("tasks", "list", "--roots", "--json", db=db).json["tasks"][0]["id"]
    assert weft("tasks", "answer", root_id, "a.py", db=db).code == 0

    with started("serve", "--no-http", db=db, cwd=project, SERVED_KEY=KEY) as serving:
        _read_until(serving, "serving")
        watched = weft("tasks", "watch", root_id, db=db)
        assert watched.code == 0, watched
        os.kill(serving.pid, signal.SIGTERM)
        _, told = serving.communicate(timeout=60)

    root = weft("tasks", "show", root_id, "--json", db=db).json
    assert root["status"] == "completed", (watched, told)
    answer = '{"answer": "a.py"}'
    assert sorted(answers.made) == sorted(["begin", "look", "slow", "slow", answer])
    assert root["result"]["parsedContent"] == [f"done with {answer}", "done with slow"]


def _read_until(process: Process, text: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if text in line.decode():
            return
    raise AssertionError(f"it ended and never said {text!r}")
