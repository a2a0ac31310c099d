"""`weft tasks ...` as a person uses it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import weft

DONE: dict[str, Any] = {
    "status": "completed",
    "result": {"value": 1},
    "started_at": "2025-01-01T00:00:00Z",
    "completed_at": "2025-01-01T00:01:05Z",
}


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "weft.db")


def submit(db: str, *tasks: dict[str, Any]) -> dict[str, str]:
    """Submit a flow, and return the ids of its tasks by name."""
    ran = weft("flow", "submit", "-", "--json", db=db, stdin=json.dumps(tasks))
    assert ran.code == 0, ran.err
    listed = weft("tasks", "list", "--flow", ran.json["root_id"], "--json", db=db).json["tasks"]
    return {task["name"]: task["id"] for task in listed}


def shown(db: str, task_id: str) -> dict[str, Any]:
    found: dict[str, Any] = weft("tasks", "show", task_id, "--json", db=db).json
    return found


def test_show_prints_the_record(store_url: str) -> None:
    ids = submit(store_url, {"name": "a", "inputs": {"text": "x"}}, {"name": "b"})

    record = shown(store_url, ids["a"])
    for_people = weft("tasks", "show", ids["a"], db=store_url)

    assert len(record) == 31
    assert (record["inputs"], record["has_children"]) == ({"text": "x"}, True)
    assert "name" in for_people.out
    assert "schedule_type" not in for_people.out
    assert "schedule_type" in weft("tasks", "show", ids["a"], "--all", db=store_url).out


@pytest.mark.parametrize("command", ["show", "tree", "copy", "link", "archive", "delete", "export"])
def test_an_unknown_task_is_not_found(db: str, command: str) -> None:
    submit(db, {"name": "another"})
    ran = weft("tasks", command, "00000000-0000-4000-8000-000000000000", db=db)

    assert ran.code == 3
    assert ran.err == "error: task-not-found: no task 00000000-0000-4000-8000-000000000000\n"


def test_what_is_no_id_is_wrong_input(db: str) -> None:
    ran = weft("tasks", "show", "42", "--json", db=db)

    assert ran.code == 2
    assert ran.json["error"]["code"] == "invalid-task-id"


def test_copy_link_and_archive_make_new_flows(store_url: str) -> None:
    ids = submit(store_url, {"name": "a", **DONE}, {"name": "b", "dependencies": ["a"], **DONE})
    source = ids["a"]

    copied = weft("tasks", "copy", source, "--json", db=store_url).json
    linked = weft("tasks", "link", source, "--json", db=store_url).json
    archived = weft("tasks", "archive", source, "--json", db=store_url).json
    mixed = weft("tasks", "copy", source, "--link", ids["a"], "--json", db=store_url).json

    assert copied["counts"] == {"pending": 2}
    assert linked["counts"] == archived["counts"] == {"completed": 2}
    assert mixed["counts"] == {"pending": 1, "completed": 1}
    assert shown(store_url, linked["root_id"])["result"] == {"value": 1}
    assert shown(store_url, linked["root_id"])["original_task_id"] == source
    assert shown(store_url, source)["has_references"] is True
    refused = weft("tasks", "update", archived["root_id"], "priority=0", db=store_url)
    assert (refused.code, refused.err.split(": ")[1]) == (2, "frozen")


def test_linking_unfinished_work_is_refused(db: str) -> None:
    ids = submit(db, {"name": "a"})

    ran = weft("tasks", "link", ids["a"], db=db)

    assert ran.code == 2
    assert ran.err.startswith("error: source-not-completed: only completed tasks can be linked: a (")


def test_an_outside_dependency_is_refused_or_taken_along(db: str) -> None:
    ids = submit(db, {"name": "root"}, {"name": "a"}, {"name": "b", "dependencies": ["a"]})

    refused = weft("tasks", "copy", ids["b"], db=db)
    taken = weft("tasks", "copy", ids["b"], "--with-dependencies", "--json", db=db)

    assert refused.code == 2
    assert "outside-dependencies" in refused.err
    assert "--with-dependencies" in refused.err
    assert taken.json["counts"] == {"pending": 2}


def test_update_sets_fields_and_refuses_the_others(db: str, tmp_path: Path) -> None:
    ids = submit(db, {"name": "root"}, {"name": "a"})
    file = tmp_path / "inputs.json"
    file.write_text('{"n": [1, 2]}')

    done = weft(
        "tasks", "update", ids["a"], "priority=0", "name=new name", f"inputs=@{file}", "--json", db=db
    )
    refused = weft("tasks", "update", ids["a"], "parent_id=null", "user_id=x", "prioritty=1", "--json", db=db)
    cyclic = weft("tasks", "update", ids["a"], f'dependencies=[{{"id": "{ids["a"]}"}}]', db=db)
    formless = weft("tasks", "update", ids["a"], "priority", "name=x", "name=y", db=db)
    both = weft("tasks", "update", ids["a"], "status=completed", "priority=99", "--json", db=db)
    assert [one["field"] for one in both.json["error"]["problems"]] == ["status", "priority"]
    assert "'priority' is not of the form" in formless.err
    assert "name is given twice" in formless.err

    assert (done.json["priority"], done.json["name"], done.json["inputs"]) == (0, "new name", {"n": [1, 2]})
    assert refused.code == 2
    assert [problem["field"] for problem in refused.json["error"]["problems"]] == [
        "parent_id",
        "user_id",
        "prioritty",
    ]
    assert "must not depend on itself" in cyclic.err
    assert formless.code == 2
    assert shown(db, ids["a"]) == done.json


def test_delete_removes_what_nothing_needs(db: str) -> None:
    ids = submit(db, {"name": "root"}, {"name": "a"}, {"name": "b", "dependencies": ["a"]})

    needed = weft("tasks", "delete", ids["a"], db=db)
    parent = weft("tasks", "delete", ids["root"], db=db)
    both = weft("tasks", "delete", ids["a"], ids["b"], "--json", db=db)

    assert (needed.code, parent.code) == (2, 2)
    assert "is needed by 1 other tasks: b" in needed.err
    assert "--with-children" in parent.err
    assert both.json == {"deleted": [ids["a"], ids["b"]]}
    assert shown(db, ids["root"])["has_children"] is False
    assert weft("tasks", "delete", ids["root"], "--with-children", db=db).out == "deleted 1 task\n"


def test_events_tell_the_story_of_a_flow(db: str) -> None:
    ids = submit(db, {"name": "a"})
    weft("tasks", "update", ids["a"], "priority=0", db=db)

    found = weft("tasks", "events", ids["a"], "--json", db=db).json["events"]
    later = weft("tasks", "events", "--flow", ids["a"], "--after", str(found[0]["seq"]), db=db)

    assert [event["type"] for event in found] == ["flow.created", "task.updated"]
    assert "task.updated" in later.out
    assert "flow.created" not in later.out


def test_the_list_is_a_table_that_says_when_it_is_cut(db: str) -> None:
    submit(db, {"name": "root"}, *({"name": f"t{number}"} for number in range(5)))

    ran = weft("tasks", "list", "--limit", "2", db=db)

    assert ran.out.splitlines()[0].split() == ["ID", "NAME", "STATUS", "DONE", "CREATED"]
    assert ran.out.splitlines()[-1] == "2 of 6 tasks; see --limit and --offset"
    assert weft("tasks", "list", "--name", "nothing", db=db).out == "no tasks\n"


def test_a_name_cannot_play_tricks_on_the_terminal(db: str) -> None:
    ids = submit(db, {"name": "\x1b[31mred\n\u202eback"})

    for command in ("show", "tree"):
        out = weft("tasks", command, ids["\x1b[31mred\n\u202eback"], db=db).out
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert "\\x1b[31mred\\n\\u202eback" in out


def test_a_blocked_task_is_marked(db: str) -> None:
    failed = {
        "status": "failed",
        "error": "no",
        "started_at": DONE["started_at"],
        "completed_at": DONE["completed_at"],
    }
    ids = submit(db, {"name": "root"}, {"name": "a", **failed}, {"name": "b", "dependencies": ["a"]})

    out = weft("tasks", "tree", ids["root"], db=db).out

    assert "[blocked]" in out
    assert out.splitlines()[-1] == "3 tasks: 2 pending, 1 failed, 1 blocked"


def test_a_long_tree_is_cut_with_a_word(db: str) -> None:
    ids = submit(db, {"name": "root"}, *({"name": f"t{number}"} for number in range(9)))

    out = weft("tasks", "tree", ids["root"], "--limit", "4", db=db).out

    assert "... 6 more tasks; see --limit" in out


def test_a_task_is_named_by_the_beginning_of_its_id_or_as_the_last(store_url: str) -> None:
    ids = submit(store_url, {"name": "a", "id": "abcd0000-0000-4000-8000-000000000001"}, {"name": "b"})

    assert weft("tasks", "show", "ABCD", "--json", db=store_url).json["name"] == "a"
    assert weft("tasks", "show", "last", "--json", db=store_url).json["id"] == ids["a"]
    assert weft("flow", "run", "last", "--json", db=store_url).json["root_id"] == ids["a"]
    assert ids["b"][:8] in weft("tasks", "tree", "abcd", db=store_url).out
    assert ids["b"] in weft("tasks", "tree", "abcd", "--full-ids", db=store_url).out


def test_a_beginning_that_several_ids_have_is_refused_with_the_candidates(db: str) -> None:
    ids = [f"abcd0000-0000-4000-8000-{number:012}" for number in (1, 2)]
    submit(db, {"name": "first", "id": ids[0]}, {"name": "second", "id": ids[1]})

    ran = weft("tasks", "show", "abcd", db=db)

    assert ran.code == 2
    assert "ambiguous-id: the ids of 2 tasks begin with 'abcd'; give more of the id\n" in ran.err
    assert all(
        f"  {one}: {name} (pending)\n" in ran.err for one, name in zip(ids, ("first", "second"), strict=True)
    )


@pytest.mark.parametrize("command", ["delete", "archive"])
def test_the_last_task_is_not_meant_where_nothing_can_be_undone(db: str, command: str) -> None:
    submit(db, {"name": "a", **DONE})

    ran = weft("tasks", command, "last", db=db)

    assert (ran.code, "'last' is not accepted here" in ran.err) == (2, True)


def test_an_empty_store_has_no_last_run(db: str) -> None:
    submit(db, {"name": "a"})
    weft("tasks", "delete", weft("tasks", "show", "last", "--json", db=db).json["id"], db=db)

    ran = weft("tasks", "show", "last", db=db)

    assert (ran.code, ran.err) == (3, "error: task-not-found: there is no run yet\n")
