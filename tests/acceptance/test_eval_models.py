"""`weft eval` and `weft repl` with models: over real HTTP, as a person runs them."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Ran, started, weft
from tests.model_server import ModelServer, asks_for, drips, fails, hangs, says

KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def project(tmp_path: Path, model_server: ModelServer) -> Path:
    (tmp_path / "weft.toml").write_text(f"""
[models]
default = "served:good"
[models.aliases]
other = "served:other"
[models.providers.served]
base_url = "{model_server.base_url}"
kind = "openai"
api_key_env = "SERVED_KEY"
retries = 0
[models.settings."served:priced"]
input_price = 1000000.0
output_price = 1000000.0
context_window = 10000
""")
    return tmp_path


def evaluate(project: Path, *arguments: str | Path, **more: Any) -> Ran:
    return weft("eval", *arguments, db="unused", cwd=project, SERVED_KEY=KEY, **more)


def test_an_answer_is_printed_and_what_it_took_is_said_beside_it(
    project: Path, model_server: ModelServer
) -> None:
    model_server.script(says("Hello, Ada."))

    ran = evaluate(project, '(deftask greet (who) :instructions "Greet {{who}}.") (greet "Ada")')

    assert (ran.code, ran.out) == (0, "Hello, Ada.\n")
    assert ran.err.startswith("1 model call, ")
    assert len(ran.err.splitlines()) == 1
    body = model_server.requests[0].body
    assert body["model"] == "good"
    assert body["messages"][-1]["content"] == "Greet Ada."


def test_an_answer_that_was_cut_is_told(project: Path, model_server: ModelServer) -> None:
    model_server.script(*[says("Once upon", finish="length")] * 2)
    program = '(deftask tell () :instructions "Tell.") (tell)'

    cut, bounded = evaluate(project, program), evaluate(project, program, "--budget-tokens", "200")

    assert (cut.code, cut.out) == (bounded.code, bounded.out) == (0, "Once upon\n")
    (told, _) = cut.err.splitlines()
    assert re.fullmatch(
        r"'tell' \(step [\d/]+\): the response was truncated after \d+ tokens: the model.*", told
    )
    assert "the budget is used up" in bounded.err


def test_json_has_the_usage_in_the_document(project: Path) -> None:
    ran = evaluate(project, '(begin (task :instructions "a") (task :instructions "b"))', "--json")

    assert (ran.code, ran.err) == (0, "")
    usage = ran.json["usage"]
    assert usage["calls"] == 2
    assert usage["tokens"] == usage["input_tokens"] + usage["output_tokens"] > 0
    assert [step["step"] for step in usage["steps"]] == ["1", "2"]


def test_a_program_that_asks_no_model_says_nothing_of_it(project: Path) -> None:
    assert evaluate(project, "(+ 1 2)", "--usage") == Ran(0, "3\n", "")


def test_text_streams_to_standard_error_and_moves_no_cursor(project: Path, model_server: ModelServer) -> None:
    model_server.script(says("one ", "\x1b[2Jtwo\n", "three"))

    ran = evaluate(project, '(task :instructions "a")', "--stream")

    assert ran.code == 0
    assert "one \\x1b[2Jtwo\nthree\n" in ran.err
    assert model_server.requests[0].body["stream"] is True


def test_the_tree_says_who_spent_what(project: Path) -> None:
    program = '(deftask say (x) :instructions "{{x}}") (map say (list "a" "b")) (task :instructions "c")'

    ran = evaluate(project, program, "--usage")

    lines = [line.partition(":")[0] for line in ran.err.splitlines()]
    assert lines[:-1] == ["1", "  1/1", "    1/1/1 say", "  1/2", "    1/2/1 say", "2"]
    assert ran.err.splitlines()[-1].startswith("3 model calls, ")


def test_a_budget_ends_the_program_before_it_is_exceeded(project: Path, model_server: ModelServer) -> None:
    ran = evaluate(project, '(task :instructions "a")', "--budget-tokens", "10")

    assert (ran.code, ran.out, model_server.requests) == (1, "", [])
    assert "does not fit the budget: 0 of 10 are used" in ran.err


def test_a_budget_of_money_needs_a_price_and_keeps_to_it(project: Path, model_server: ModelServer) -> None:
    ran = evaluate(project, '(task :instructions "a")', "--budget-cost", "5")
    assert ran.code == 1
    assert '[models.settings."served:good"]' in ran.err

    ran = evaluate(project, '(task :instructions "a")', "--budget-cost", "5", "--model", "served:priced")
    assert (ran.code, model_server.requests) == (1, [])

    ran = evaluate(project, '(task :instructions "a")', "--budget-cost", "500", "--model", "served:priced")
    assert ran.code == 0
    assert 16 <= model_server.requests[0].body["max_completion_tokens"] < 500


@pytest.mark.parametrize(
    ("arguments", "environment", "model"),
    [
        ((), {}, "good"),
        (("--model", "other"), {}, "other"),
        ((), {"WEFT_MODEL": "served:third"}, "third"),
        (("--model", "other"), {"WEFT_MODEL": "served:third"}, "other"),
    ],
)
def test_the_model_of_tasks_that_name_none(
    project: Path,
    model_server: ModelServer,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    model: str,
) -> None:
    program = '(list (task :instructions "a") (task :instructions "b" :model "served:named"))'

    ran = evaluate(project, program, *arguments, **environment)

    assert ran.code == 0
    assert sorted(request.body["model"] for request in model_server.requests) == sorted([model, "named"])


def test_tools_of_the_project_are_called_for_the_model(project: Path, model_server: ModelServer) -> None:
    (project / "notes.txt").write_text("the answer is 42")
    model_server.script(
        asks_for("system_read_files", {"paths": ["notes.txt"]}),
        asks_for("system_write_file", {"path": "x", "content": "y"}),
        says("42"),
    )

    ran = evaluate(project, '(task :instructions "read" :tools ("system:read_files"))', "--json")

    assert (ran.code, ran.json["value"]["content"]) == (0, "42")
    assert ran.json["value"]["notes"]["tools"] == ["system:read_files"]
    assert "the answer is 42" in model_server.requests[1].body["messages"][-1]["content"]
    assert "tool 'system_write_file' was refused" in ran.err
    assert not (project / "x").exists()


def test_files_of_a_task_reach_the_model_as_data(project: Path, model_server: ModelServer) -> None:
    (project / "notes.txt").write_text("buy milk")

    ran = evaluate(
        project, '(task :instructions "sum up" :files ("notes.txt" ("none.txt" :optional true)))', "--json"
    )

    assert "buy milk" in json.dumps(model_server.requests[0].body["messages"])
    assert "none.txt" in ran.json["value"]["notes"]["warnings"][0]


def test_a_provider_that_refuses_fails_the_task_and_no_key_is_shown(
    project: Path, model_server: ModelServer
) -> None:
    model_server.script(fails(401, f"bad key {KEY}"))

    ran = evaluate(project, '(task :instructions "a")')

    assert (ran.code, ran.out) == (1, "")
    assert "Traceback" not in ran.err
    assert KEY not in ran.err


def test_output_that_does_not_fit_is_asked_for_again(project: Path, model_server: ModelServer) -> None:
    model_server.script(says("no json"), says('{"ok": true}'))
    program = """(task :instructions "judge" :output "json" :schema "object")"""

    ran = evaluate(project, program, "--json")

    assert ran.json["value"]["parsedContent"] == {"ok": True}
    messages = model_server.requests[1].body["messages"]
    assert [message["role"] for message in messages][-3:] == ["user", "assistant", "user"]
    assert messages[-2]["content"] == "no json"


@pytest.mark.parametrize("reaction", [hangs(), drips("begun")])
def test_ctrl_c_ends_the_request_for_real(project: Path, model_server: ModelServer, reaction: Any) -> None:
    model_server.script(reaction)

    with started(
        "eval", '(task :instructions "a")', "--stream", db="unused", cwd=project, SERVED_KEY=KEY
    ) as process:
        model_server.wait_until(lambda: len(model_server.requests) == 1)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        model_server.wait_until(lambda: model_server.requests[0].is_abandoned)


def test_a_session_uses_models_across_its_lines(project: Path, model_server: ModelServer) -> None:
    model_server.script(says("one"), says("two"))
    lines = '(task :instructions "a")\n(+ 1 1)\n(task :instructions "b")\n'

    ran = weft("repl", db="unused", cwd=project, stdin=lines, SERVED_KEY=KEY)

    assert (ran.code, ran.out) == (0, "one\n2\ntwo\n")
    assert [line[:13] for line in ran.err.splitlines()] == ["1 model call,"] * 2


def test_a_path_in_an_expression_is_looked_up_in_the_current_folder_first(
    project: Path, model_server: ModelServer
) -> None:
    model_server.always(says("ok"))
    (project / "lib").mkdir()
    (project / "lib" / "a.py").write_text("inner")
    (project / "a.py").write_text("outer")

    ran = evaluate(
        project / "lib", '(task :instructions "Review." :files ("a.py" ("gone.py" :optional true)))'
    )

    assert ran.code == 0, ran.err
    assert "inner" in json.dumps(model_server.requests[0].body)
