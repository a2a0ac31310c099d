"""Questions of `system:request_user_input` to a person at a terminal."""

from pathlib import Path

from tests.terminal import Terminal

TWO_QUESTIONS = """
(string-append
  (try (with-timeout 0.5 (get (system:request_user_input :question "first?") "answer"))
       (catch e "nobody"))
  " and "
  (get (system:request_user_input :question "second?") "answer"))
"""


def test_a_question_that_timed_out_does_not_take_the_answer_of_the_next(tmp_path: Path) -> None:
    with Terminal("eval", TWO_QUESTIONS, folder=tmp_path) as terminal:
        terminal.expect("first?")
        terminal.expect("second?\r\n> ")
        terminal.type("Alice\n")
        terminal.expect("nobody and Alice")
        assert terminal.exit_code() == 0


def test_a_question_that_was_interrupted_does_not_take_the_next_input_of_a_session(tmp_path: Path) -> None:
    with Terminal("repl", folder=tmp_path) as terminal:
        terminal.expect("weft>")
        terminal.type('(system:request_user_input :question "first?")\r')
        terminal.expect("first?\r\n> ")
        terminal.type("\x03")
        terminal.expect("interrupted")
        terminal.expect("weft>")
        terminal.type("(+ 40 2)\r")
        terminal.expect("42\r\n")


def test_an_answer_is_one_line(tmp_path: Path) -> None:
    with Terminal(
        "eval", '(get (system:request_user_input :question "name?") "answer")', folder=tmp_path
    ) as terminal:
        terminal.expect("name?\r\n> ")
        terminal.type("Zoë and more\n")
        terminal.expect("\r\nZoë and more\r\n")
        assert terminal.exit_code() == 0
