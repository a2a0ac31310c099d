"""`weft tasks` on runs of programs and their steps, as a person uses it."""

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_run import project
from tests.command_line import Ran, weft
from tests.model_server import ModelServer, fails, says

__all__ = ["project"]

PROGRAM = """(deftask greet (who) :instructions "Greet {{who}}.")
(list (script :argv ("date" "+%s%N")) (greet "Ada") (greet who))"""


@pytest.fixture
def run(project: Path, model_server: ModelServer) -> dict[str, Any]:
    model_server.always(says("Hello."))
    (project / "greet.sexp").write_text(PROGRAM)
    found: dict[str, Any] = resumed(project, "greet.sexp", "who=Bob").json
    return found


def resumed(project: Path, *arguments: str) -> Ran:
    return weft("run", *arguments, "--json", db=str(project / "weft.db"), cwd=project, SERVED_KEY="k" * 20)


def tasks(project: Path, *arguments: str) -> Ran:
    return weft("tasks", *arguments, db=str(project / "weft.db"), cwd=project)


def steps(project: Path, root_id: str) -> list[dict[str, Any]]:
    return [child["task"] for child in tasks(project, "export", root_id).json["children"]]


def test_a_run_is_forked_from_a_step_with_another_input(
    project: Path, run: dict[str, Any], model_server: ModelServer
) -> None:
    script, _, last = steps(project, run["root_id"])
    asked = len(model_server.requests)
    forked = tasks(project, "copy", run["root_id"], "--from", last["id"], "--set", "who=Cyd")
    (fork_id,) = re.findall(r"^forked to (\S+) \(1 task: 1 pending\)$", forked.out, re.MULTILINE)

    again = resumed(project, "--resume", fork_id)

    assert again.code == 0
    assert len(model_server.requests) == asked + 1
    new = steps(project, fork_id)
    assert (new[0]["original_task_id"], new[0]["result"]) == (script["id"], script["result"])
    assert new[2]["inputs"] == {"who": "Cyd"}


def test_what_cannot_be_forked_is_told(project: Path, run: dict[str, Any]) -> None:
    unknown = tasks(project, "copy", run["root_id"], "--from", "77")
    assert (unknown.code, unknown.err.split(": ")[1]) == (3, "step-not-found")
    without = tasks(project, "copy", run["root_id"], "--set", "who=Cyd")
    assert (without.code, "need --from STEP" in without.err) == (2, True)
    other = tasks(project, "copy", run["root_id"], "--from", "1", "--with-dependencies")
    assert other.code == 2


def test_a_step_says_where_its_result_came_from_and_trees_and_lists_tell_steps_apart(
    project: Path, run: dict[str, Any]
) -> None:
    second = resumed(project, "greet.sexp", "who=Bob").json["root_id"]
    first = steps(project, run["root_id"])[1]
    linked = steps(project, second)[1]

    made = tasks(project, "show", first["id"]).out
    shown = tasks(project, "show", linked["id"]).out

    key = first["params"]["step"]["key"]
    assert f"step {key} of run {run['root_id']} 'greet' (atomic)" in made
    assert "\nprompt:\n  Greet Ada." in made
    assert re.search(r"answered 20.* by served:good, \d+ tokens, price unknown", made)
    assert f"linked from {first['id']}, step {key} of run {run['root_id']} 'greet'" in shown
    assert re.search(r"made 20.* by served:good, \d+ tokens, price unknown", shown)

    assert re.search(r"✔ greet .*  \d+ tokens\n", tasks(project, "tree", run["root_id"]).out)
    tree = tasks(project, "tree", second).out
    assert "  link of " in tree
    assert "tokens" not in tree
    assert tasks(project, "list", "--json").json["total"] == 2
    assert tasks(project, "list", "--steps", "--json").json["total"] == 8


def test_an_archived_run_is_exported_and_read_in_another_store(
    project: Path, run: dict[str, Any], tmp_path: Path
) -> None:
    archived = tasks(project, "archive", run["root_id"], "--json").json["root_id"]
    exported = tasks(project, "export", archived).out
    file = tmp_path / "archive.json"
    file.write_text(exported)
    elsewhere = str(tmp_path / "elsewhere.db")

    read = weft("flow", "submit", str(file), "--json", db=elsewhere)

    assert read.json["counts"] == {"completed": 4}
    assert weft("tasks", "export", archived, db=elsewhere).out == exported
    program = json.loads(exported)["task"]["params"]["program"]
    assert (program["main"]["text"], "folder" in program) == (PROGRAM, False)  # the reader's project applies


def test_a_run_that_differs_from_what_is_stored_is_refused_with_the_place(
    project: Path, model_server: ModelServer
) -> None:
    model_server.script(says("Hello."), fails(400))
    (project / "greet.sexp").write_text(PROGRAM)
    failed = resumed(project, "greet.sexp", "who=Bob")
    root_id = failed.json["root_id"]
    assert f"weft run --resume {root_id}" in failed.err
    with sqlite3.connect(project / "weft.db") as connection:
        connection.execute(
            "UPDATE tasks SET step_hash = 'other' WHERE name = 'greet' AND status = 'completed'"
        )
    connection.close()

    refused = resumed(project, "--resume", root_id)

    assert refused.code == 1
    message = refused.json["notes"]["error"]["message"]
    assert message.startswith("replay-differs: step ")
    assert " at greet.sexp:2:39: " in message
    assert f"weft tasks copy --reuse {root_id}" in refused.err


def test_results_of_an_older_version_that_are_not_reused_are_told(
    project: Path, model_server: ModelServer
) -> None:
    model_server.always(says("Hello."))
    first = resumed(project, "greet.sexp", 'names=["Ada"]').json["root_id"]
    with sqlite3.connect(project / "weft.db") as connection:
        connection.execute("UPDATE tasks SET reuse_hash = 'other' WHERE reuse_hash IS NOT NULL")
        connection.execute(
            "UPDATE tasks SET params = json_set(params, '$.program.version', '0.0.9') WHERE id = ?", (first,)
        )
    connection.close()

    again = resumed(project, "greet.sexp", 'names=["Ada"]')
    reusing = resumed(project, "greet.sexp", 'names=["Ada"]')

    assert f"no results of run {first} were reused: it was made by weft 0.0.9, this is weft " in again.err
    assert "nothing was reused" not in reusing.err
