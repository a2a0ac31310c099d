"""Runs that ask a person: at a terminal, and without one."""

import json
from pathlib import Path

import pytest

import weft
from tests.command_line import weft as command
from tests.terminal import Terminal
from weft.app.programs import RunWaits

PROGRAM = """(define (ask what) (get (system:request_user_input :question what) "answer"))
(string-append (ask "Your name?") " of " (ask "Your town?"))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "ask.sexp").write_text(PROGRAM)
    return tmp_path


def open_questions(db: str) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = command(
        "tasks", "list", "--steps", "--status", "in_progress", "--json", db=db
    ).json["tasks"]
    return [row for row in rows if row["name"].endswith("?")]


def test_without_a_terminal_a_run_rests_until_somebody_has_answered(project: Path) -> None:
    db = str(project / "weft.db")
    rested = command("run", "ask.sexp", "--json", db=db, cwd=project)
    root_id, [question] = rested.json["root_id"], rested.json["questions"]

    assert rested.code == 4
    assert question["question"] == "Your name?"
    assert "waiting for an answer: Your name?" in rested.err
    assert f"weft tasks answer {question['id']} TEXT" in rested.err
    assert "[waits for an answer]" in command("tasks", "tree", root_id, db=db).out
    assert "question" in command("tasks", "list", db=db).out
    assert "waiting for an answer; answer with:" in command("tasks", "show", question["id"], db=db).out
    assert command("tasks", "answer", root_id, "Ada", db=db).code == 0
    resumed = command("run", "--resume", root_id, "--json", db=db, cwd=project)
    assert resumed.code == 4
    [town] = resumed.json["questions"]
    again = command("tasks", "answer", question["id"], "Ada", db=db)
    assert (again.code, "nothing changed" in again.out) == (0, True)
    unnamed = command("tasks", "answer", root_id, "Ada", db=db)
    assert (unnamed.code, town["id"] in unnamed.err) == (2, True)
    answered = command("tasks", "answer", town["id"], "-", "--json", db=db, stdin="Paris\n")
    assert answered.json["result"] == {"answer": "Paris"}
    resumed = command("run", "--resume", root_id, db=db, cwd=project)
    assert (resumed.code, resumed.out) == (0, "Ada of Paris\n")
    late = command("tasks", "answer", question["id"], "Bob", db=db)
    assert (late.code, "was already answered" in late.err) == (2, True)


def test_a_flow_that_waits_for_a_person_says_so_and_goes_on_with_the_answer(
    project: Path,
) -> None:
    db = str(project / "weft.db")
    asking = '(get (system:request_user_input :question "Your name?") "answer")'
    (project / "lib.sexp").write_text(f"(template name () {asking})")
    assert command("library", "add", "lib.sexp", db=db, cwd=project).code == 0
    tasks = [
        {"name": "ask", "schemas": {"method": "name"}},
        {"name": "other", "parent_id": "ask", "schemas": {"method": "noop"}},
    ]
    (project / "flow.json").write_text(json.dumps(tasks))
    rested = command("flow", "run", "flow.json", "--json", db=db, cwd=project)
    [question] = rested.json["questions"]

    assert rested.code == 4
    assert rested.json["counts"]["completed"] == 1
    assert "waiting for an answer: Your name?" in rested.err
    assert f"weft tasks answer {question['id']} TEXT" in rested.err
    again = f"weft flow run {rested.json['root_id']}"
    assert f"then resume with: {again}" in rested.err
    assert command("tasks", "answer", question["id"], "Ada", db=db).code == 0
    resumed = command(*again.split()[1:], "--json", db=db, cwd=project)
    assert (resumed.code, resumed.json["status"]) == (0, "completed")


def test_of_several_questions_one_must_be_named(project: Path) -> None:
    db = str(project / "weft.db")
    (project / "two.sexp").write_text(
        '(parallel (system:request_user_input :question "a?") (system:request_user_input :question "b?"))'
    )
    root_id = command("run", "two.sexp", "--json", db=db, cwd=project).json["root_id"]
    ran = command("tasks", "answer", root_id, "yes", db=db)

    assert ran.code == 2
    assert "several-questions: 2 questions wait" in ran.err
    assert ": a?\n" in ran.err
    assert ": b?\n" in ran.err


def test_an_ephemeral_run_asks_nobody_who_is_not_here(project: Path) -> None:
    ran = command("run", "ask.sexp", "--ephemeral", db=None, cwd=project)

    assert ran.code == 1
    assert "there is no person to ask" in ran.err


def test_python_is_told_what_a_run_waits_for(project: Path) -> None:
    with pytest.raises(RunWaits, match=r"Your name\?") as raised:
        weft.run(project / "ask.sexp", db=project / "weft.db")
    [question] = raised.value.questions
    command("tasks", "answer", question.id, "Ada", db=str(project / "weft.db"))
    with pytest.raises(RunWaits, match=r"Your town\?"):
        weft.run("", db=project / "weft.db", resume=raised.value.root_id)


def test_at_a_terminal_the_person_is_asked_there(project: Path) -> None:
    with Terminal("run", "ask.sexp", folder=project) as terminal:
        terminal.expect("Your name?\r\n> ")
        terminal.type("Ada\n")
        terminal.expect("Your town?\r\n> ")
        terminal.type("Paris\n")
        terminal.expect("Ada of Paris\r\n")
        assert terminal.exit_code() == 0


def test_a_run_that_rests_asks_when_it_goes_on_at_a_terminal(project: Path) -> None:
    db = str(project / ".weft" / "weft.db")
    root_id = command("run", "ask.sexp", "--json", db=db, cwd=project).json["root_id"]
    with Terminal("run", "--resume", root_id, folder=project) as terminal:
        terminal.expect("Your name?\r\n> ")
        terminal.type("Ada\n")
        terminal.expect("Your town?\r\n> ")
        [town] = open_questions(db)
        assert command("tasks", "answer", town["id"], "Rome", db=db).code == 0
        terminal.expect("answered elsewhere")
        terminal.expect("Ada of Rome\r\n")
        assert terminal.exit_code() == 0
