"""`weft eval` with a model that spawns subtasks: over real HTTP, as a person runs it."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Ran, started, weft
from tests.model_server import ModelServer, asks_for, hangs, says

PROGRAM = """
(deftask explain (topic) :description "Explain a topic" :instructions "Explain {{topic}}."
  :context (:fresh "disabled"))
(deftask boss (goal) :instructions "Reach {{goal}}." :tools ("system:spawn_subtask"))
(boss "a goal")
"""
TOOL = "system_spawn_subtask"


@pytest.fixture
def project(tmp_path: Path, model_server: ModelServer) -> Path:
    (tmp_path / "weft.toml").write_text(f"""
[models]
default = "served:good"
[models.providers.served]
base_url = "{model_server.base_url}"
kind = "openai"
retries = 0
""")
    (tmp_path / "program.sexp").write_text(PROGRAM)
    return tmp_path


def evaluate(project: Path) -> Ran:
    return weft("eval", "--file", "program.sexp", db="unused", cwd=project, OPENAI_API_KEY="sk-x")


def request(**changes: Any) -> dict[str, Any]:
    return {"type": "atomic", "name": "explain", "inputs": {"topic": "cats"}, **changes}


def test_subtasks_are_shown_and_the_model_goes_on_whatever_comes_of_them(
    project: Path, model_server: ModelServer
) -> None:
    model_server.script(
        asks_for(TOOL, request(name="none")),
        asks_for(TOOL, request(name="boss", inputs={"goal": "a goal"})),
        asks_for(TOOL, request()),
        says("They purr."),
        says("Cats purr."),
    )

    ran = evaluate(project)

    assert (ran.code, ran.out) == (0, "Cats purr.\n")
    missing, cycle, begun, ended, usage = ran.err.splitlines()
    assert "there is no template 'none'; templates: boss, explain" in missing
    assert "'boss' is already running with the same inputs: boss -> boss" in cycle
    assert (begun, ended) == ("subtask 1/s6 'explain': started", "subtask 1/s6 'explain': completed")
    assert usage.startswith("5 model calls, ")
    bodies = [one.body for one in model_server.requests]
    (tool,) = bodies[0]["tools"]
    assert "- explain (atomic; inputs: topic): Explain a topic" in tool["function"]["description"]
    refused = json.loads(json.loads(bodies[1]["messages"][-1]["content"])["error"])
    assert refused["details"]["subtaskError"]["reason"] == "template_not_found"
    assert bodies[3]["messages"][-1]["content"] == "Explain cats."
    assert json.loads(bodies[4]["messages"][-1]["content"])["content"] == "They purr."


def test_ctrl_c_ends_the_request_of_a_subtask_for_real(project: Path, model_server: ModelServer) -> None:
    model_server.script(asks_for(TOOL, request()), hangs())

    with started(
        "eval", "--file", "program.sexp", db="unused", cwd=project, OPENAI_API_KEY="sk-x"
    ) as process:
        model_server.wait_until(lambda: len(model_server.requests) == 2)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        model_server.wait_until(lambda: model_server.requests[1].is_abandoned)
