"""`weft repl`, from a pipe and on a terminal."""

import os
import stat
from pathlib import Path

import pytest

from tests.command_line import Ran, is_gone, wait_for, weft
from tests.terminal import Terminal


def session(text: str, *arguments: str) -> Ran:
    return weft("repl", *arguments, db="unused", stdin=text)


def test_what_one_input_defines_the_next_can_use() -> None:
    ran = session("(define (square x)\n  (* x x))\n(square 12)\n")

    assert (ran.code, ran.out, ran.err) == (0, "144\n", "")


def test_names_can_be_bound_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "hunter2-hunter2")
    ran = session(
        "(string-length token)\ntoken\n(+ n 1)\n(define n 5)\nn\n",
        "--secret",
        "token=DEPLOY_TOKEN",
        "--set",
        "n=41",
    )

    assert (ran.code, ran.out) == (0, "15\n[secret token]\n42\n5\n")


def test_an_input_goes_on_until_it_is_closed() -> None:
    ran = session('(string-append "a\nb" ; )\n #| ( |#\n "c")\n\n\n(+ 1\n\n2)')

    assert ran.out == "a\nbc\n3\n"


def test_mistakes_keep_the_session() -> None:
    ran = session('(+ 1 "a")\nnowhere\n)\n(/ 1 0)\n"\\q"\n(+ 1 1)\n')

    assert ran.code == 0
    assert ran.out == "2\n"
    assert "<repl>:1:1: wrong-type: + takes numbers" in ran.err
    assert "unbound-name" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("wrong", "code"),
    [("(+ 1 nme)", "unbound-name"), ('(task :instructions "x" :model "typo")', "unknown-model")],
)
def test_what_is_wrong_with_an_input_is_told_before_its_first_effect(
    tmp_path: Path, wrong: str, code: str
) -> None:
    ran = session(f'(begin (script :argv ("touch" "{tmp_path}/began")) {wrong})\n')

    assert f"{code}:" in ran.err
    assert not (tmp_path / "began").exists()


def test_an_input_is_checked_with_what_the_session_has_defined() -> None:
    ask = '(deftask ask (y) :instructions "{{y}}")'
    ran = session(f'(define x 1)\n{ask}\n(list x (ask 1 2 3))\n(script :argv ("echo" "{{{{x}}}}"))\n')

    assert ran.out == "1\n"
    assert "wrong-arity: ask takes 1 argument" in ran.err


def test_an_input_that_is_never_closed_is_told_at_the_end() -> None:
    ran = session("(+ 1\n")

    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "<repl>:1:1: syntax-error: this parenthesis is never closed\n  (+ 1\n  ^\n"


def test_a_template_may_be_defined_again_and_is_kept_when_the_new_one_is_refused() -> None:
    ran = session(
        '(template f () "one")\n(f)\n(template f () "two")\n(f)\n(template f () (undefined-form . ))\n(f)\n'
    )

    assert ran.out == "one\ntwo\ntwo\n"


def test_bytes_that_are_no_text_are_refused() -> None:
    ran = weft("repl", db="unused", stdin=b'"\xff"\n1\n')

    assert (ran.code, ran.out) == (0, "1\n")
    assert "not Unicode" in ran.err


def test_quit_leaves() -> None:
    assert session("1\n,quit\n2\n").out == "1\n"


def test_help_lists_and_explains() -> None:
    ran = session(
        ",help\n,help map\n,help let\n,help ,load\n"
        "(define (f x y) x)\n,help f\n"
        '(deftask look (a (b 1)) :instructions "Look at {{a}} {{b}}")\n,help look\n'
    )

    assert ",load FILE" in ran.out
    assert "string-append" in ran.out
    assert "(map f list ...)" in ran.out
    assert "(let ((name value) ...) body...)" in ran.out
    assert "(f x y): a function" in ran.out
    assert "(look a [b])\nLook at {{a}} {{b}}" in ran.out
    assert ran.err == ""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (",hlp", "there is no command ,hlp; did you mean 'help'?"),
        (",", "there is no command ,; ,help lists them"),
        (",help lett", "'lett' is not defined; did you mean 'let'?"),
        (",load", "usage: ,load FILE"),
        (",load nowhere.sexp", "nowhere.sexp:1: unreadable-file: No such file or directory"),
        (",load ~no-such-user/a.sexp", "unreadable-file"),
        (",type (+ 1", "this parenthesis is never closed"),
    ],
)
def test_a_wrong_command_keeps_the_session(line: str, message: str) -> None:
    ran = session(f"{line}\n1\n")

    assert (ran.code, ran.out) == (0, "1\n")
    assert message in ran.err


def test_load_env_type_and_time(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(
        '<template name="greet" params="who"><task><description>Hello {{who}}</description></task></template>'
    )
    (tmp_path / "b.sexp").write_text('(define answer 42)\n"done"')

    ran = session(
        f",load {tmp_path / 'a.xml'}\n,load {tmp_path / 'b.sexp'}\n,load {tmp_path / 'a.xml'}\n"
        "(define (f x) x)\n,env\n,type answer\n,type f\n,time (+ 1 1)\n"
    )

    assert ran.err == ""
    lines = ran.out.splitlines()
    assert lines[0] == f"loaded 1 template from {tmp_path / 'a.xml'}"
    assert lines[2] == "done"
    assert lines[4:9] == ["answer = 42", "(f x)", "(greet who): atomic task", "a number", "a function"]
    assert lines[9] == "2"
    assert lines[10].endswith(" s")


def test_a_library_is_there_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "a.sexp").write_text(
        '(template twice (x) (add x x))\n(define (add a b) (+ a b))\n(error "not run")'
    )

    assert session("(twice 4)\n", "--library", str(tmp_path)).out == "8\n"


def test_limits_hold_for_each_input() -> None:
    ran = session("(define (f n) (if (= n 0) 1 (f (- n 1))))\n(f 100000)\n(f 10)\n", "--max-steps", "1000")

    assert ran.out == "1\n"
    assert "steps-exhausted" in ran.err


def test_a_person_at_a_terminal(tmp_path: Path) -> None:
    with Terminal("repl", folder=tmp_path) as terminal:
        terminal.expect("weft>")
        terminal.type("(+ 40\r")
        terminal.expect("...")
        terminal.type("2)\r")
        terminal.expect("42\r\n")
        terminal.expect("weft>")
        terminal.type("(string-upc\t")
        terminal.expect("ase")
        terminal.type(' "abc")\r')
        terminal.expect("ABC\r\n")
        terminal.expect("weft>")
        terminal.type("\x04")

        assert terminal.exit_code() == 0
    history = tmp_path / "state" / "weft" / "repl_history"
    assert "+(+ 40\n+2)\n" in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_control_c_ends_a_pure_evaluation_and_not_the_session(tmp_path: Path) -> None:
    with Terminal("repl", "--max-steps", "1000000000000", folder=tmp_path) as terminal:
        terminal.expect("weft>")
        terminal.type("(define (f) (f))\r")
        terminal.expect("weft>")
        terminal.type('(begin (log-message "it runs") (f))\r')
        terminal.expect("it runs\r\n")
        terminal.type("\x03")
        terminal.expect("interrupted")
        terminal.expect("weft>")
        terminal.type("(+ 40 2)\r")
        terminal.expect("42\r\n")
        terminal.expect("weft>")
        terminal.type("\x04")

        assert terminal.exit_code() == 0


def test_control_c_ends_a_script_and_not_the_session(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    stopped = f"echo $$ > {mark}.new; mv {mark}.new {mark}; kill -STOP $$"
    program = f'(parallel (script :shell "{stopped}") (script :argv ("sleep" "600")))'
    with Terminal("repl", folder=tmp_path) as terminal:
        terminal.expect("weft>")
        terminal.type(f'(begin (log-message "it runs") {program})\r')
        terminal.expect("it runs\r\n")
        while not mark.exists():
            os.sched_yield()
        terminal.type("\x03")
        terminal.expect("interrupted")
        terminal.expect("weft>")
        wait_for(lambda: is_gone(int(mark.read_text())), seconds=20)
        terminal.type("(+ 40 2)\r")
        terminal.expect("42\r\n")
        terminal.expect("weft>")
        terminal.type("\x04")

        assert terminal.exit_code() == 0
