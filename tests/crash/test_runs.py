"""Processes that evaluate a program and are killed: at every commit, and at random."""

import json
import os
import random
import re
import signal
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Ran, started, weft
from tests.invariants import check_over
from tests.model_server import Exchange, ModelServer, asks_for, fails, says, write_settings
from weft.app.app import App
from weft.ids import TaskId
from weft.tasks.record import Status, Task

SUBTASK = {
    "type": "atomic",
    "description": "a part",
    "name": "ask",
    "inputs": {"x": "spawned"},
    "context_management": {"fresh_context": "disabled"},
}

KEY = "sk-test-0123456789abcdef"

PROGRAM = """
(deftask ask (x) :instructions "{{x}}")
(deftask judge (x) :instructions "judge {{x}}" :output "json")
(deftask lead () :instructions "lead" :tools ("system:spawn_subtask"))
(define (rounds n last) (if (= n 0) last (rounds (- n 1) (ask (string-append "round " (string n))))))
(template part (a) (list (ask (string-append a " one")) (ask (string-append a " two"))))
(begin
  (ask "begin")
  (map ask (list "m1" "m2" "m3" "m4" "m5" "m6" "m7" "m8"))
  (cond ((get (judge "it") "good") (part "good")) (else (part "bad")))
  (rounds 10 "none")
  (ask (try (ask "refused") (catch e "after a failure")))
  (try (with-budget (:calls 1) (begin (ask "within") (ask "beyond"))) (catch e "spent"))
  (loop 2 (ask "looped"))
  (iterative-loop :max-iterations 2 :initial 0
    :executor (lambda (s n) (ask (format "turn {}" n)))
    :controller (lambda (x c n) (list "continue" (+ n 1))))
  (script :argv ("echo" "hello"))
  (lead)
  (map part (list "p" "q" "r" "s"))
  (rounds 5 "none"))
"""


@pytest.fixture
def project(tmp_path: Path, model_server: ModelServer) -> Path:
    write_settings(tmp_path, model_server)
    (tmp_path / "program.sexp").write_text(PROGRAM)
    model_server.always(_answers)
    return tmp_path


async def _answers(exchange: Exchange) -> None:
    last = exchange.request.body["messages"][-1]
    prompt = last["content"]
    if prompt == "lead":
        await asks_for("system_spawn_subtask", SUBTASK)(exchange)
        return
    if prompt == "refused":
        await fails(400, "bad request")(exchange)
        return
    if last["role"] == "tool":
        prompt = "lead at its end"
    await says('{"good": true}' if prompt == "judge it" else f"answer to {prompt}")(exchange)


def _has_seen(server: ModelServer, count: int) -> bool:
    return len(server.requests) >= count


def asked(server: ModelServer) -> Counter[str]:
    """Count the prompts, without those of the session that spawns: it is stored as turns."""
    prompts = (request.body["messages"] for request in server.requests)
    return Counter(messages[-1]["content"] for messages in prompts if not _is_leading(messages))


def _is_leading(messages: list[dict[str, Any]]) -> bool:
    return any(message["content"] == "lead" for message in messages)


def run(project: Path, *arguments: str, **more: Any) -> Ran:
    return weft("run", *arguments, db=str(project / "weft.db"), cwd=project, SERVED_KEY=KEY, **more)


async def stored_prompts(project: Path, root_id: str) -> Counter[str]:
    """Count the prompts whose responses or failures are stored: none of them may be sent again."""
    async with await App.open(project / "weft.db") as app:
        flow = await app.flow_of(TaskId(root_id))
    prompts = ((task.params or {})["prompt"].get("prompt") for task in flow if _is_answered(task))
    return Counter(prompt for prompt in prompts if prompt not in (None, "lead"))


def _is_answered(task: Task) -> bool:
    return task.status in (Status.COMPLETED, Status.FAILED) and "prompt" in (task.params or {})


def root_of(err: str) -> str:
    found = re.search(r"run ([0-9a-f-]{36})", err)
    assert found is not None, err
    return found[1]


async def killed_and_resumed(project: Path, server: ModelServer, whole: Ran, **environment: str) -> bool:
    """Run with a fault, then resume; whether it came to the fault. No stored answer is asked for again."""
    server.requests.clear()
    killed = run(project, "program.sexp", "--no-reuse", "--json", **environment)
    if killed.code == 0:
        return False
    assert killed.code == -9, killed.err
    if "run " not in killed.err:
        return True  # nothing was stored yet
    root_id = root_of(killed.err)
    server.wait_until_idle()
    paid, stored = asked(server), await stored_prompts(project, root_id)
    resumed = run(project, "--resume", root_id, "--json")

    assert resumed.code == 0, resumed.err
    assert resumed.json["content"] == whole.json["content"]
    again = asked(server) - paid
    everything = await stored_prompts(project, root_id)
    assert sum(everything.values()) == 43
    assert again == everything - stored, "what was stored was asked for again, or something was left out"
    return True


@pytest.mark.parametrize("point", ["store.applied", "store.committed"])
async def test_a_run_goes_on_after_a_kill_at_some_commits(
    project: Path, model_server: ModelServer, point: str
) -> None:
    whole = run(project, "program.sexp", "--no-reuse", "--json")
    for count in (4, 20, 33):
        assert await killed_and_resumed(project, model_server, whole, WEFT_FAULT=f"{point}:{count}")


@pytest.mark.slow
@pytest.mark.parametrize("point", ["store.began", "store.applied", "store.committed"])
async def test_a_run_goes_on_after_a_kill_at_any_commit(
    project: Path, model_server: ModelServer, point: str
) -> None:
    whole = run(project, "program.sexp", "--no-reuse", "--json")
    count = 1
    while await killed_and_resumed(project, model_server, whole, WEFT_FAULT=f"{point}:{count}"):
        count += 1
    assert count > 30, "the series ended before the run did"


async def killed_at_the_end(folder: Path, fault: str) -> bool:
    """Run a program out of time with a fault, then again; return whether it came to the fault."""
    text = '(parallel (script :argv ("sleep" "600")) (script :argv ("sleep" "601")))'
    program = {"main": {"name": "slow", "text": text, "surface": "sexp"}}
    params = {"program": program, "timeout_seconds": 0.3}
    task = json.dumps({"name": "slow", "schemas": {"method": "template"}, "params": params})
    db = str(folder / "weft.db")
    killed = weft("flow", "run", "-", db=db, cwd=folder, stdin=task, WEFT_FAULT=fault)
    found = re.search(r"running ([0-9a-f-]{36})", killed.err)
    if found is None:
        return True  # nothing was stored yet
    again = weft("flow", "run", found[1], db=db, cwd=folder)

    assert (killed.code, again.code) in ((-9, 1), (1, 1)), again.err
    async with await App.open(db) as app:
        await check_over(app.store, TaskId(found[1]))
        assert (await app.get(TaskId(found[1]))).error == "timed out after 0.3 s"
    return killed.code == -9


@pytest.mark.parametrize("fault", ["store.applied:5", "store.committed:5", "store.committed:6"])
async def test_a_run_out_of_time_is_over_after_a_kill_at_some_commits(tmp_path: Path, fault: str) -> None:
    assert await killed_at_the_end(tmp_path, fault)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["store.began", "store.applied", "store.committed"])
async def test_a_run_out_of_time_is_over_after_a_kill_at_any_commit(tmp_path: Path, point: str) -> None:
    count = 1
    while await killed_at_the_end(tmp_path, f"{point}:{count}"):
        count += 1
    assert count > 5, "the series ended before the run did"


@pytest.mark.slow
async def test_a_hundred_random_kills_lose_and_double_nothing(
    project: Path, model_server: ModelServer
) -> None:
    whole = run(project, "program.sexp", "--no-reuse", "--json")
    chance = random.Random(7)
    db = str(project / "weft.db")
    for _ in range(100):
        model_server.requests.clear()
        wanted = chance.randrange(1, 45)  # there are 45 requests
        with started("run", "program.sexp", "--no-reuse", db=db, cwd=project, SERVED_KEY=KEY) as process:
            model_server.wait_until(partial(_has_seen, model_server, wanted))
            os.kill(process.pid, signal.SIGKILL)
            _, err = process.communicate(timeout=60)
        root_id = root_of(err.decode())
        model_server.wait_until_idle()
        paid, stored = asked(model_server), await stored_prompts(project, root_id)
        resumed = run(project, "--resume", root_id, "--json")

        assert json.loads(resumed.out)["content"] == whole.json["content"]
        everything = await stored_prompts(project, root_id)
        assert asked(model_server) - paid == everything - stored
