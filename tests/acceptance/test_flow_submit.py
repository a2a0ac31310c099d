"""`weft flow submit` as a person uses it."""

import json
from pathlib import Path

import pytest

from tests.command_line import weft

EXAMPLE = Path(__file__).parents[2] / "examples" / "release.json"


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "project" / ".weft" / "weft.db")


def submit(db: str, document: object, *arguments: str) -> dict[str, object]:
    ran = weft("flow", "submit", "-", "--json", *arguments, db=db, stdin=json.dumps(document))
    found: dict[str, object] = {"code": ran.code, **ran.json}
    return found


def total(db: str) -> int:
    found: int = weft("tasks", "list", "--json", db=db).json["total"]
    return found


def test_the_example_is_stored_and_its_tree_is_shown(store_url: str) -> None:
    stored = weft("flow", "submit", EXAMPLE, db=store_url)
    (root,) = weft("tasks", "list", "--roots", "--json", db=store_url).json["tasks"]
    tree = weft("tasks", "tree", root["id"], db=store_url)

    assert (stored.code, tree.code) == (0, 0)
    assert "5 tasks: 5 pending" in stored.out
    assert "├─ · publish" in tree.out
    assert "<- tests, notes" in tree.out
    assert "<- publish, (announce)" in tree.out


def test_json_output_is_the_summary(db: str) -> None:
    found = submit(db, [{"name": "a"}, {"name": "b", "dependencies": ["a"]}])

    assert found == {
        "code": 0,
        "root_id": found["root_id"],
        "status": "pending",
        "counts": {"pending": 2},
        "blocked": 0,
    }


def test_all_problems_are_listed_at_once_and_nothing_is_stored(db: str) -> None:
    bad = [
        {"name": "a", "dependencies": ["b"]},
        {"name": "b", "dependencies": ["a"], "priorty": 1},
        {"name": "c", "priority": 7, "status": "done"},
    ]
    ran = weft("flow", "submit", "-", db=db, stdin=json.dumps(bad))

    assert ran.code == 2
    assert ran.err.startswith("error: invalid-tasks: ")
    assert "did you mean 'priority'?" in ran.err
    assert "dependencies form a cycle: a -> b -> a" in ran.err
    assert "[2].priority" in ran.err
    assert "[2].status" in ran.err
    assert total(db) == 0


def test_each_problem_in_json_has_its_five_facts(db: str) -> None:
    found = submit(
        db, [{"name": "a", "priority": 7}, {"name": "b", "parent_id": None}, {"nam": "c", "parent_id": None}]
    )
    error = found["error"]

    assert isinstance(error, dict)
    assert error["code"] == "invalid-tasks"
    for problem in error["problems"]:
        assert set(problem) == {"field", "reason", "expected", "actual", "path"}
    assert {problem["field"] for problem in error["problems"]} == {"priority", "name", "nam", "parent_id"}


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ('[{"name": "a",}]', "-:1:15: "),
        ('[\n  {"name": "a"}\n  {"name": "b"}\n]', "-:3:3: "),
        ("", "the file is empty"),
        ("\xff\xfe", "malformed-json"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_malformed_json_is_one_line_with_its_place(db: str, text: str, fragment: str) -> None:
    ran = weft("flow", "submit", "-", db=db, stdin=text.encode("latin-1"))

    assert ran.code == 2
    assert ran.err.startswith("error: malformed-json: ")
    assert fragment in ran.err
    assert ran.err.count("\n") == 1


def test_a_missing_file_is_wrong_input(db: str) -> None:
    ran = weft("flow", "submit", "nowhere.json", db=db)

    assert ran.code == 2
    assert ran.err == "error: unreadable-file: nowhere.json: No such file or directory\n"


def test_check_stores_nothing_and_makes_no_store(db: str) -> None:
    ran = weft("flow", "submit", "--check", EXAMPLE, db=db)

    assert (ran.code, ran.out[:6]) == (0, "valid:")
    assert not Path(db).exists()


def test_an_owner_cannot_submit_for_another(db: str) -> None:
    found = submit(db, [{"name": "a", "user_id": "ben"}], "--user", "ann")

    assert found["code"] == 2
    assert submit(db, [{"name": "a"}], "--user", "ann")["code"] == 0
    assert weft("tasks", "list", "--json", "--user", "ben", db=db).json["total"] == 0
    assert weft("tasks", "list", "--json", db=db, WEFT_USER="ann").json["total"] == 1
    assert total(db) == 1


def test_the_folder_of_a_program_is_refused_by_name(db: str) -> None:
    main = {"name": "m", "text": '(system:read_files :paths (list "/etc/shadow"))', "surface": "sexp"}
    task = {"name": "t", "schemas": {"method": "template"}, "params": {"program": {"main": main}}}
    assert submit(db, task)["code"] == 0
    task["params"] = {"program": {"main": main, "folder": "/"}}

    ran = weft("flow", "submit", "-", db=db, stdin=json.dumps(task))

    assert ran.code == 2
    assert "params.program.folder is not allowed" in ran.err
    assert weft("flow", "run", "-", db=db, stdin=json.dumps(task)).code == 2
    assert total(db) == 1


def test_an_exported_flow_is_read_back(db: str, tmp_path: Path) -> None:
    root = submit(db, json.loads(EXAMPLE.read_text()))["root_id"]
    file = tmp_path / "exported.json"

    assert weft("tasks", "export", str(root), "-o", file, db=db).code == 0
    other = str(tmp_path / "other.db")
    assert weft("flow", "submit", file, db=other).code == 0

    assert json.loads(file.read_text()) == weft("tasks", "export", str(root), "--json", db=other).json
    again = weft("flow", "submit", file, db=db)
    assert again.code == 2
    assert "error: task-exists: already stored: " in again.err


@pytest.mark.parametrize("graph", ["montage-chameleon-2mass-015d-001", "1000genome-chameleon-20ch-100k-001"])
def test_a_recorded_scientific_workflow_is_stored_with_its_graph(db: str, graph: str) -> None:
    file = Path(__file__).parents[2].parent / "shared" / "data" / "workflow-dags" / f"{graph}.json"
    if not file.exists():
        pytest.skip("the shared workflow graphs are not here")
    recorded = json.loads(file.read_text())["tasks"]
    flow = [
        {"name": task["id"], "dependencies": task["parents"], "schemas": {"method": "sleep"}}
        for task in recorded
    ]

    found = submit(db, [{"name": "root"}, *flow])
    tasks = weft("tasks", "list", "--json", "--limit", "100000", db=db).json["tasks"]
    names = {task["id"]: task["name"] for task in tasks}

    assert found["counts"] == {"pending": len(recorded) + 1}
    assert {
        task["name"]: {names[d["id"]] for d in task["dependencies"]} for task in tasks if task["parent_id"]
    } == {task["id"]: set(task["parents"]) for task in recorded}


def test_an_executor_that_is_not_known_is_warned_of_with_the_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "flow.json").write_text('[{"name": "a", "schemas": {"method": "comand"}}]')

    ran = weft("flow", "submit", tmp_path / "flow.json", db=str(tmp_path / "weft.db"))

    assert ran.code == 0
    assert "there is no executor 'comand'" in ran.err
    assert "did you mean 'command'" in ran.err
