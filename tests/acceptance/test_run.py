"""`weft run`: programs over real HTTP, as a person runs them."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Ran, started, weft
from tests.model_server import ModelServer, fails, gives_json, hangs, says, write_settings

KEY = "sk-test-0123456789abcdef"

ID = "3f0e0c1e-5f8b-4a55-9f5c-0f6f5a1c2b7d"
GREET = '(deftask greet (who) :instructions "Greet {{who}}.")'


@pytest.fixture
def project(tmp_path: Path, model_server: ModelServer) -> Path:
    write_settings(tmp_path, model_server)
    (tmp_path / "greet.sexp").write_text(f"{GREET}\n(map greet names)")
    return tmp_path


def run(project: Path, *arguments: str | Path, **more: Any) -> Ran:
    return weft("run", *arguments, db=str(project / "weft.db"), cwd=project, SERVED_KEY=KEY, **more)


def test_the_result_goes_to_standard_output_and_the_tree_to_standard_error(
    project: Path, model_server: ModelServer
) -> None:
    model_server.always(says("Hello."))

    ran = run(project, "greet.sexp", 'names=["Ada", "Bob"]')

    assert (ran.code, json.loads(ran.out)) == (0, ["Hello.", "Hello."])
    assert re.search(r"✔ greet  [0-9a-f]{8}.*\n├─ ✔ greet .*\n└─ ✔ greet ", ran.err)
    assert "2 steps, 2 model calls, " in ran.err


def test_what_was_asked_before_is_linked_and_an_edit_asks_only_what_it_changes(
    project: Path, model_server: ModelServer
) -> None:
    model_server.always(says("Hello."))
    run(project, "greet.sexp", 'names=["Ada", "Bob"]')
    again = run(project, "greet.sexp", 'names=["Ada", "Cyd"]')

    assert "2 steps, 1 model call (1 more reused)" in again.err
    assert " link of " in again.err
    assert len(model_server.requests) == 3
    fresh = run(project, "greet.sexp", 'names=["Ada", "Cyd"]', "--no-reuse")
    assert "2 steps, 2 model calls" in fresh.err
    assert len(model_server.requests) == 5


def test_json_is_the_result_and_the_id_of_the_run(project: Path, model_server: ModelServer) -> None:
    model_server.always(gives_json({"ok": True}))
    (project / "ask.xml").write_text(
        '<task><instructions>Say.</instructions><output_format type="json" schema="object"/></task>'
    )

    ran = run(project, "ask.xml", "--json")

    assert ran.code == 0
    assert ran.json["parsedContent"] == {"ok": True}
    assert ran.json["status"] == "COMPLETE"
    shown = weft("tasks", "show", ran.json["root_id"], "--json", db=str(project / "weft.db")).json
    assert shown["status"] == "completed"
    assert shown["params"]["program"]["main"]["text"].startswith("<task>")


def test_a_failure_exits_with_one_and_says_how_to_try_again(project: Path, model_server: ModelServer) -> None:
    model_server.script(says("Hello."), fails(400))
    program = project / "two.sexp"
    program.write_text(f'{GREET} (list (greet "Ada") (greet "Bob"))')

    failed = run(project, "two.sexp")

    assert (failed.code, failed.out) == (1, "")
    assert "\\n" not in failed.err
    hint = re.search(r"weft run --resume (\S+)", failed.err)
    assert hint is not None
    program.write_text("(this is not (the program")  # the run has its own
    model_server.always(says("Hi."))
    resumed = run(project, "--resume", hint[1])
    assert (resumed.code, json.loads(resumed.out)) == (0, ["Hello.", "Hi."])
    assert len(model_server.requests) == 3
    assert "\nfailed " not in resumed.err  # that was in its first life


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("greet.sexp", "names=[]", "nmaes=[]"), "'nmaes'; did you mean 'names'?"),
        (("greet.sexp", "names=[]", "names=[1]"), "'names' is given twice"),
        (("greet.sexp", "names"), "inputs are given as NAME=VALUE"),
        (("two.sexp", "who=1"), "two.sexp only defines 'greet', 'f'; add a call"),
        (("--resume", ID, "--model", "a:b"), "--model: a resumed run keeps"),
        (("--resume", ID, "--ephemeral"), "--ephemeral: a resumed run keeps"),
        (("--resume", ID, "--name", "x", "--library", "lib"), "--library, --name: a resumed run keeps"),
        (("noisy.py", "--json"), "exits when it is loaded: SystemExit: 7"),
    ],
)
def test_what_would_be_ignored_is_refused_before_anything_is_stored(
    project: Path, arguments: tuple[str, ...], reason: str
) -> None:
    (project / "two.sexp").write_text("(define (greet who) who) (define (f x) x)")
    (project / "noisy.py").write_text("import sys\nprint('hello')\nsys.exit(7)\n")

    ran = run(project, *arguments)

    assert ran.code == 2
    assert reason in (ran.json["error"]["message"] if "--json" in arguments else ran.err)
    assert not (project / "weft.db").exists()


def test_a_wrong_program_exits_with_two_and_stores_nothing(project: Path, model_server: ModelServer) -> None:
    (project / "wrong.sexp").write_text(f'{GREET} (greet "a" "b") (gret "c") (greet who)')

    ran = run(project, "wrong.sexp")

    assert ran.code == 2
    assert "wrong.sexp:1:" in ran.err
    assert "gret" in ran.err
    assert "who" in ran.err
    assert not (project / "weft.db").exists()
    assert not model_server.requests


def test_ctrl_c_leaves_a_run_that_can_go_on(project: Path, model_server: ModelServer) -> None:
    model_server.script(says("Hello."), hangs())
    (project / "two.sexp").write_text(f'{GREET} (list (greet "Ada") (greet "Bob"))')
    db = str(project / "weft.db")

    with started("run", "two.sexp", db=db, cwd=project, SERVED_KEY=KEY) as process:
        model_server.wait_until(lambda: len(model_server.requests) == 2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)

    assert process.returncode == 130
    hint = re.search(rb"weft run --resume (\S+)", err)
    assert hint is not None
    model_server.always(says("Hi."))
    resumed = run(project, "--resume", hint[1].decode())
    assert (resumed.code, json.loads(resumed.out)) == (0, ["Hello.", "Hi."])
    assert len(model_server.requests) == 3


def test_an_ephemeral_run_leaves_nothing_behind(project: Path, model_server: ModelServer) -> None:
    model_server.always(says("Hello."))

    ran = run(project, "greet.sexp", 'names=["Ada"]', "--ephemeral")

    assert (ran.code, json.loads(ran.out)) == (0, ["Hello."])
    assert not (project / "weft.db").exists()


def test_a_secret_is_stored_by_name_only(project: Path, model_server: ModelServer) -> None:
    model_server.always(says("the word is hunter2-hunter2"))
    (project / "one.sexp").write_text(f"{GREET} (greet word)")

    ran = run(project, "one.sexp", "--secret", "word=WORD", WORD="hunter2-hunter2")

    assert ran.code == 0
    assert "hunter2" not in ran.out + ran.err
    stored = b"".join(file.read_bytes() for file in project.glob("weft.db*"))
    assert b"hunter2" not in stored
    assert b'"$secret":"WORD"' in stored
    assert "hunter2" in json.dumps(model_server.requests[-1].body)


PYTHON = """
import weft


@weft.task
def greet(who: str) -> str:
    "Greet {{who}}."


@weft.task
def main(names: list) -> list:
    return weft.build.call("map", weft.build.var("greet"), weft.build.var("names"))


program = [greet("Ada"), greet("Bob")]
"""


def test_a_python_file_is_run_by_the_name_of_what_it_makes(project: Path, model_server: ModelServer) -> None:
    model_server.always(says("Hello."))
    (project / "made.py").write_text(PYTHON)

    whole, named = run(project, "made.py"), run(project, "made.py:greet", "who=Cyd")

    assert (whole.code, whole.out) == (0, "Hello.\n"), whole.err
    assert (named.code, named.out) == (0, "Hello.\n"), named.err
    asked = [request.body["messages"][-1]["content"] for request in model_server.requests]
    assert asked == ["Greet Ada.", "Greet Bob.", "Greet Cyd."]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "does not define 'program' or 'main'"),
        ("1 / 0", "fails when it is loaded: ZeroDivisionError"),
        ("program = 3.5j", "a program is source text"),
        ("program = 'f(", "fails when it is loaded: SyntaxError"),
    ],
)
def test_a_python_file_without_a_program_is_refused(project: Path, text: str, said: str) -> None:
    (project / "made.py").write_text(text)

    ran = run(project, "made.py")

    assert ran.code == 2
    assert said in ran.err


INLINE = """<task><instructions>How fast?</instructions><output_format type="json"
  schema='{"type": "object", "properties": {"v": {"description": "km/h"}}}'/></task>"""


def test_an_inline_schema_that_contains_a_slash_runs_checks_and_evaluates(
    project: Path, model_server: ModelServer
) -> None:
    model_server.always(gives_json({"v": 3}))
    (project / "speed.xml").write_text(INLINE)

    checked = weft("check", "speed.xml", db="unused", cwd=project)
    evaluated = weft("eval", "--file", "speed.xml", db="unused", cwd=project, SERVED_KEY=KEY)
    ran = run(project, "speed.xml")

    assert (checked.code, evaluated.code, ran.code) == (0, 0, 0), ran.err
    assert json.loads(ran.out) == json.loads(evaluated.out) == {"v": 3}


DATACLASSES = '''from dataclasses import dataclass

import weft


@dataclass
class Finding:
    line: int


@dataclass
class Report:
    findings: list[Finding]


@weft.task
def one(code: str) -> Report:
    """Review {{code}}."""


@weft.task
def many(code: str) -> list[Finding]:
    """Review {{code}}."""
'''


@pytest.mark.parametrize(
    ("name", "answer"), [("one", {"findings": [{"line": 1}]}), ("many", [{"line": 1}, {"line": 2}])]
)
def test_a_task_function_that_returns_dataclasses_runs(
    project: Path, model_server: ModelServer, name: str, answer: Any
) -> None:
    model_server.always(gives_json(answer))
    (project / "report.py").write_text(DATACLASSES)

    ran = run(project, f"report.py:{name}", "code=x")

    assert ran.code == 0, ran.err
    assert json.loads(ran.out) == answer


def test_a_blank_program_gives_nil(project: Path) -> None:
    (project / "blank.sexp").write_text("; nothing yet\n")

    ran = run(project, "blank.sexp")

    assert (ran.code, ran.out) == (0, "null\n"), ran.err


def test_a_name_that_is_neither_file_nor_template_is_told_where_there_is_no_store(tmp_path: Path) -> None:
    ran = weft("run", "nosuch", db=str(tmp_path / "none" / "weft.db"), cwd=tmp_path)

    assert ran.code == 3
    assert "unknown-template: no template 'nosuch' is registered, nor is there such a file" in ran.err
    assert "no store at" in ran.err


def test_an_error_at_the_top_level_keeps_its_details(project: Path) -> None:
    (project / "fails.sexp").write_text('(error "too dear" (dict :limit 5))')

    ran, told = run(project, "fails.sexp"), run(project, "fails.sexp", "--json")
    evaluated = weft("eval", "--file", "fails.sexp", "--json", db="unused", cwd=project)

    assert (ran.code, told.code, evaluated.code) == (1, 1, 1)
    assert 'error: fails.sexp:1:1: too dear\n  details: {"limit": 5}' in ran.err
    error = told.json["notes"]["error"]
    assert (error["type"], error["reason"]) == ("TASK_FAILURE", "execution_halted")
    assert error["notes"]["details"] == {"limit": 5}
    assert error["details"]["failing_expression"] == '(error "too dear" (dict :limit 5))'
    assert evaluated.json["error"]["task_error"] == error


def test_an_error_inside_composite_tasks_tells_its_place_and_its_details(project: Path) -> None:
    (project / "deep.sexp").write_text(
        '(sequential (script :argv ("true"))\n  (sequential (error "too dear" (dict :limit 5))))'
    )

    ran = run(project, "deep.sexp")
    evaluated = weft("eval", "--file", "deep.sexp", db="unused", cwd=project)

    assert "error: deep.sexp:2:15: step 2 of 2 failed: step 1 of 1 failed: too dear" in ran.err
    assert '\n  details: {"limit": 5}' in ran.err
    assert '\n  details: {"limit": 5}' in evaluated.err


def test_a_review_of_a_file_that_is_not_there_fails_and_asks_nothing(
    project: Path, model_server: ModelServer
) -> None:
    (project / "review.sexp").write_text('(task :instructions "Review." :files ("gone.py"))')

    ran = run(project, "review.sexp")

    assert ran.code == 1
    assert "'gone.py'" in ran.err
    assert model_server.requests == []


def test_a_file_that_is_missing_later_in_a_program_is_told_before_the_first_request(
    project: Path, model_server: ModelServer
) -> None:
    model_server.always(says("ok"))
    (project / "two.sexp").write_text(
        '(deftask review (path) :instructions "Review." :files ("{{path}}"))\n'
        '(task :instructions "Dear.")\n(review file)'
    )

    ran = run(project, "two.sexp", "file=gone.py", "--json")
    evaluated = weft(
        "eval", "--file", "two.sexp", "--set", "file=gone.py", cwd=project, db="unused", SERVED_KEY=KEY
    )

    assert (ran.code, evaluated.code) == (1, 1)
    error = ran.json["notes"]["error"]
    assert (error["reason"], error["details"]["place"]) == ("context_retrieval_failure", "two.sexp:1:1")
    assert "'gone.py'" in evaluated.err
    assert model_server.requests == []
    (project / "gone.py").write_text("here again")
    assert run(project, "--resume", ran.json["root_id"]).code == 0


def test_a_path_given_in_a_subfolder_is_looked_up_there_first(
    project: Path, model_server: ModelServer
) -> None:
    model_server.always(says("ok"))
    (project / "review.sexp").write_text(
        '(deftask review (path) :instructions "Review." :files ("{{path}}")) (review file)'
    )
    (project / "lib").mkdir()
    (project / "lib" / "a.py").write_text("inner")
    (project / "a.py").write_text("outer")
    (project / "b.py").write_text("beside")

    for path in ("a.py", "b.py", "../a.py"):
        ran = weft(
            "run", project / "review.sexp", f"file={path}", cwd=project / "lib", db=str(project / "weft.db"),
            SERVED_KEY=KEY,
        )  # fmt: skip
        assert ran.code == 0, ran.err

    sent = [json.dumps(request.body) for request in model_server.requests]
    assert [word in body for word, body in zip(["inner", "beside", "outer"], sent, strict=True)] == [True] * 3
    assert "lib/a.py" in sent[0], "the path is stored relative to the project"


@pytest.mark.parametrize("program", [f'{GREET} (greet "Ada")', '(sequential (task :instructions "Say."))'])
def test_a_model_that_cannot_be_reached_is_another_exit_code_than_a_failure(
    project: Path, model_server: ModelServer, program: str
) -> None:
    model_server.always(fails(503, "overloaded"))
    (project / "once.sexp").write_text(program)

    assert run(project, "once.sexp").code == 5
    assert weft("eval", program, db="unused", cwd=project, SERVED_KEY=KEY).code == 5
    model_server.always(fails(400, "no"))
    assert run(project, "once.sexp").code == 1
    assert weft("eval", program, db="unused", cwd=project, SERVED_KEY=KEY).code == 1


def test_a_store_that_cannot_be_reached_is_another_exit_code_than_a_failure(project: Path) -> None:
    ran = weft(
        "run", "greet.sexp", "names=[]", db="postgresql://127.0.0.1:1/none", cwd=project, SERVED_KEY=KEY
    )

    assert ran.code == 5, ran.err


SCRIPT_THEN_ASK = """(deftask ask () :instructions "Say.")
(list (script :argv ("touch" "began")) (ask)
      (try (task :model "openai:gpt-4o" :instructions "x") (catch e "no")))"""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "servd:good"], "unknown provider 'servd'"),
        (["--model", "typo"], "unknown model 'typo'"),
        (["--model", "anthropic:claude-sonnet-4-5"], "no key for 'anthropic'"),
        (["--model", "local:smolm2"], "smolm2"),
    ],
)
@pytest.mark.parametrize("command", ["run", "eval"])
def test_a_model_that_cannot_be_asked_is_told_before_the_first_effect(
    project: Path, model_server: ModelServer, command: str, options: list[str], message: str
) -> None:
    (project / "late.sexp").write_text(SCRIPT_THEN_ASK)
    file = ["late.sexp"] if command == "run" else ["--file", "late.sexp"]

    ran = weft(command, *file, *options, db=str(project / "weft.db"), cwd=project, SERVED_KEY=KEY)

    assert ran.code == 2, ran.err
    assert message in ran.err
    assert not (project / "began").exists()
    model_server.always(says("ok"))
    ran = weft(command, *file, db=str(project / "weft.db"), cwd=project, SERVED_KEY=KEY)
    assert ran.code == 0, ran.err


def test_a_file_with_one_template_runs_it_with_arguments_by_their_types(
    project: Path, model_server: ModelServer
) -> None:
    model_server.always(says("Hello."))
    (project / "only.sexp").write_text(
        '(deftask greet ((who string) (n integer 1)) :instructions "{{who}}{{n}}")'
    )

    ran = run(project, "only.sexp", "who=1234567", "n=2", "--json")

    assert (ran.code, ran.json["status"]) == (0, "COMPLETE")
    record = weft("tasks", "show", ran.json["root_id"], "--json", db=str(project / "weft.db")).json
    assert (record["name"], record["inputs"]) == ("greet", {"who": "1234567", "n": 2})


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("who:=1",), "wrong-type: 'who' of greet must be string"),
        (("who:=oops",), "who: the value after := is not JSON"),
        (("who=a", "n=two"), "'n' of greet must be integer"),
        (("n=2",), "greet needs a value for 'who'"),
        (("who=a", "wo=b"), "greet has no parameter 'wo'"),
    ],
)
def test_arguments_that_do_not_fit_the_only_template_are_refused(
    project: Path, arguments: tuple[str, ...], reason: str
) -> None:
    (project / "only.sexp").write_text(
        '(deftask greet ((who string) (n integer 1)) :instructions "{{who}}{{n}}")'
    )

    ran = run(project, "only.sexp", *arguments)

    assert (ran.code, reason in ran.err) == (2, True), ran.err
