"""`weft eval`: an expression's value, or what is wrong with it; never a traceback."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.batches import batched
from tests.command_line import Ran, weft
from tests.shared_files import shared


def evaluate(*arguments: str | Path, **more: Any) -> Ran:
    return weft("eval", *arguments, db="unused", **more)


@batched(
    ("expression", "printed"),
    [
        ("(+ 1 2)", "3"),
        ('"a b"', "a b"),
        ('"line\\n"', "line"),
        ("nil", "null"),
        ("true", "true"),
        ("(/ 1 2)", "0.5"),
        ("'a", "a"),
        ('(list 1 "ä" nil (dict :a true))', '[1, "ä", null, {"a": true}]'),
        ("(expt 2 100)", "1267650600228229401496703205376"),
        ("(define (f x) x) f", "<function f>"),
        ("(list car)", '["<built-in car>"]'),
        ("(template f () 1) f", "<task f>"),
        ('(script :argv ("echo" "{{x}}") :inputs ((x "hello")))', "hello"),
        ("<task type='script'><command>echo hello</command></task>", "hello"),
        ("", "null"),
    ],
)
def test_values(expression: str, printed: str) -> None:
    ran = evaluate(expression)

    assert (ran.code, ran.out, ran.err) == (0, f"{printed}\n", "")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("(+ 1 2)", 3),
        ('"a\\n"', "a\n"),
        ("(expt 2 100)", 2**100),
        ("(lambda (x) x)", "<function lambda>"),
        ("(list 1 (dict :a nil))", [1, {"a": None}]),
    ],
)
def test_json_holds_the_value(expression: str, value: Any) -> None:
    assert evaluate(expression, "--json").json == {"value": value}


def test_a_task_result_is_an_object_in_json() -> None:
    value = evaluate('(script :argv ("echo" "a"))', "--json").json["value"]

    assert (value["content"], value["status"]) == ("a\n", "COMPLETE")
    assert value["notes"]["script_exit_code"] == 0


@pytest.mark.parametrize(
    ("expression", "code", "message"),
    [
        ("(+ 1", 2, "<eval>:1:1: syntax-error: this parenthesis is never closed\n  (+ 1\n  ^\n"),
        ("(if)", 2, "<eval>:1:1: syntax-error: `if` is written"),
        ("(+ 1 y)", 1, "<eval>:1:6: unbound-name: 'y' is not bound\n  (+ 1 y)\n       ^\n"),
        ('(car "a")', 1, "wrong-type"),
        ('(error "stop")', 1, "stop"),
        ("<task><nothing/></task>", 2, "<eval>:1:"),
        ('(task :instructions "x" :model "nobody:none")', 2, "nobody"),
        ('(system:read_flies "x")', 2, "there is no tool 'system:read_flies'; did you mean"),
        ('(system:read_files "x")', 1, "tool 'system:read_files': the arguments do not fit"),
        ('(system:read_files (list "/etc/passwd") 1 2 3 4)', 1, "arguments; 5 were given"),
        ('(script :argv ("no-such-program"))', 1, "executable 'no-such-program' was not found"),
        ('(script :shell "echo oops >&2; exit 3")', 1, "the script exited with code 3: oops"),
        ("(define (f n) (+ 1 (f n))) (f 1)", 1, "depth-exhausted"),
    ],
)
def test_mistakes_and_failures(expression: str, code: int, message: str) -> None:
    ran = evaluate(expression)

    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert "Traceback" not in ran.err


def test_an_error_is_one_json_document() -> None:
    ran = evaluate("(+ 1 y)", "--json")

    assert ran.code == 1
    error = ran.json["error"]
    assert error["code"] == "program-error"
    assert [(one["line"], one["column"], one["code"]) for one in error["problems"]] == [
        (1, 6, "unbound-name")
    ]


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("<task><description>x</task>", {"type": "XML_PARSE_ERROR", "location": "<eval>:1:23"}),
        ("<task><mode>x</mode></task>", {"type": "TASK_FAILURE", "reason": "xml_validation_failure"}),
        ("(+ 1", {"type": "VALIDATION_ERROR"}),
        ("(car 1)", {"type": "TASK_FAILURE", "reason": "input_validation_failure"}),
        ('(task :instructions "x" :model "none:such")', {"type": "VALIDATION_ERROR", "invalidModel": True}),
    ],
)
def test_an_error_as_json_has_the_task_error_of_the_specification(
    expression: str, error: dict[str, Any]
) -> None:
    told = evaluate(expression, "--json").json["error"]["task_error"]

    assert {**told, **error} == told
    assert told["message"]


def test_inputs_that_are_not_given_are_told_before_anything_is_run() -> None:
    ran = evaluate('(sequential (script :shell "echo ran >&2") (task :instructions "{{a}} {{b}}"))')

    assert (ran.code, ran.out) == (2, "")
    assert "the input 'a' is not given" in ran.err
    assert "the input 'b' is not given" in ran.err


def test_names_can_be_set(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("from a file")

    ran = evaluate(
        "(list a b c d e)",
        *("--set", "a=1", "--set", "b=text", "--set", 'c={"k": [1]}'),
        *("--set", f"d=@{tmp_path / 'a.txt'}", "--set", "e=x=y"),
        "--json",
    )

    assert ran.json["value"] == [1, "text", {"k": [1]}, "from a file", "x=y"]


@pytest.mark.parametrize("setting", ["a", "=1", "taskLibrary=1", "a=@/no/such/file", "a=1e999", "a=[-1e999]"])
def test_a_name_that_cannot_be_set_is_wrong_input(setting: str) -> None:
    ran = evaluate("1", "--set", setting)

    assert (ran.code, ran.out) == (2, "")
    assert "Traceback" not in ran.err


def test_the_program_may_come_from_a_file_or_standard_input(tmp_path: Path) -> None:
    (tmp_path / "a.weft").write_text("(+ 1 2)\n(+ 3 4)")
    (tmp_path / "b.xml").write_text("<task type='script'><command>echo hello</command></task>")

    assert evaluate("--file", tmp_path / "a.weft").out == "7\n"
    assert evaluate("--file", tmp_path / "b.xml").out == "hello\n"
    assert evaluate("-", stdin="(+ 1 1)").out == "2\n"
    assert evaluate("-", stdin=(tmp_path / "b.xml").read_bytes()).out == "hello\n"


@pytest.mark.parametrize("arguments", [[], ["1", "--file", "a.sexp"], ["1", "2"], ["1", "--max-steps", "0"]])
def test_wrong_arguments(arguments: list[str]) -> None:
    assert evaluate(*arguments).code == 2


def test_libraries_give_templates_and_functions(tmp_path: Path) -> None:
    (tmp_path / "a.sexp").write_text(
        '(template twice (x) (add x x))\n(define (add a b) (+ a b))\n(error "not run")'
    )
    (tmp_path / "b.xml").write_text(
        '<template name="say" params="word">'
        '<task type="script"><command>echo {{word}}</command></task></template>'
    )

    ran = evaluate('(list (twice 4) (content (say "hi")))', "--library", tmp_path, "--json")

    assert ran.json == {"value": [8, "hi\n"]}


def test_problems_of_all_library_files_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.sexp").write_text("(")
    (tmp_path / "b.sexp").write_text(")")

    ran = evaluate("1", "--library", tmp_path)

    assert ran.code == 2
    assert f"{tmp_path / 'a.sexp'}:1:1: syntax-error" in ran.err
    assert f"{tmp_path / 'b.sexp'}:1:1: syntax-error" in ran.err


def test_steps_and_time_are_limited() -> None:
    forever = "(define (f) (f)) (f)"

    steps = evaluate(forever, "--max-steps", "1000")
    seconds = evaluate(forever, "--timeout", "0.2", "--max-steps", "1000000000000")

    assert (steps.code, seconds.code) == (1, 1)
    assert "more than 1000 steps" in steps.err
    assert "timed out after 0.2 seconds" in seconds.err


def test_messages_go_to_standard_error() -> None:
    ran = evaluate('(begin (log-message "hello\x1b[31m") 1)')

    assert (ran.out, ran.err) == ("1\n", "hello\\x1b[31m\n")


def test_scripts_obey_the_projects_settings(tmp_path: Path) -> None:
    (tmp_path / "weft.toml").write_text('[executors.command]\nallow = ["echo"]\n')

    def run(expression: str) -> Ran:
        return weft("eval", expression, db=None, cwd=tmp_path)

    assert run('(script :argv ("echo" "a"))').out == "a\n"
    assert "executable 'cat' may not run" in run('(script :argv ("cat"))').err
    assert "'shell' is off" in run('(script :shell "echo a")').err


def test_a_schema_file_is_found_beside_the_program(tmp_path: Path) -> None:
    (tmp_path / "shape.json").write_text('{"type": "integer"}')
    (tmp_path / "a.sexp").write_text(
        '(script :argv ("echo" "{{x}}") :inputs ((x given)) :output "json" :schema "shape.json")'
    )

    assert evaluate("--file", tmp_path / "a.sexp", "--set", "given=12").out == "12\n"
    assert "does not match" in evaluate("--file", tmp_path / "a.sexp", "--set", "given=twelve").err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_pure_program_at_once(number: signal.Signals) -> None:
    program = '(define (f) (f)) (log-message "it runs") (f)'
    command = [sys.executable, "-m", "weft", "eval", program, "--max-steps", "1000000000000"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "it runs\n"
        os.kill(process.pid, number)
        said = process.stderr.read()

    assert process.returncode == (130 if number is signal.SIGINT else 143)
    assert "Traceback" not in said


def test_naughty_strings_pass_through_unchanged() -> None:
    strings = json.loads(shared("data", "naughty-strings.json").read_text())
    names = [f"s{number}" for number in range(len(strings))]
    settings = [f"--set={name}={json.dumps(text)}" for name, text in zip(names, strings, strict=True)]

    ran = evaluate(f"(list {' '.join(names)})", *settings, "--json")

    assert ran.json == {"value": strings}


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        ("(nosuch 1)", "unbound-name"),
        ('(task :instructions "x" :model "nosuch:model")', "unknown-model"),
        ('(task :instructions "x" :schema "missing.json")', "missing.json"),
        ("(system:nosuch)", "unknown-tool"),
        ("(broken)", "nosuch"),
    ],
)
def test_nothing_is_done_before_the_whole_program_is_checked(
    tmp_path: Path, second: str, problem: str
) -> None:
    (tmp_path / "library.sexp").write_text("(define (broken) (nosuch))")
    program = tmp_path / "program.sexp"
    program.write_text(f'(script :argv ("touch" "{tmp_path}/touched")) {second}')

    evaluated = evaluate("--file", program, "--library", tmp_path / "library.sexp", cwd=tmp_path)
    ran = weft(
        "run", program, "--library", tmp_path / "library.sexp", db=str(tmp_path / "weft.db"), cwd=tmp_path
    )

    assert (evaluated.code, ran.code) == (2, 2)
    assert problem in evaluated.err
    assert problem in ran.err
    assert not (tmp_path / "touched").exists()
    if second != "(broken)":
        checked = weft("check", program, db="unused", cwd=tmp_path)
        assert (checked.code, problem in checked.out) == (2, True)
