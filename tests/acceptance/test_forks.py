"""What tests run as a fork does what a new process does: see `tests/weft_forks.py`."""

from pathlib import Path

import pytest

from tests.command_line import environment_of, fresh_weft, weft
from tests.weft_forks import can_fork, weft_forks

FLOW = '[{"name": "a"}]'


@pytest.mark.parametrize(
    ("arguments", "given", "variables"),
    [
        (("eval", "(list 1 (own:twice 21))"), "", {}),
        (("check", "-"), "(car 1 2) (nowhere)", {}),
        (("task",), "", {}),
        (("flow", "submit", "-"), FLOW, {"WEFT_FAULT": "store.applied"}),
        (("eval", '(script :argv (list "sh" "-c" "echo $OWN; pwd; cat; exit 3"))'), "unread", {"OWN": "é"}),
    ],
)
def test_a_fork_ends_as_a_new_process_does_and_says_the_same(
    tmp_path: Path, arguments: tuple[str, ...], given: str, variables: dict[str, str]
) -> None:
    # A tool of the project: it is found because the folder is where Python looks for modules.
    (tmp_path / "weft.toml").write_text('[tools]\nmodules = ["own_tools"]\n')
    (tmp_path / "own_tools.py").write_text(
        'import weft\n@weft.tool(name="own:twice", pure=True)\n'
        'def twice(number: int) -> int:\n    """Twice a number."""\n    return 2 * number\n'
    )
    assert can_fork(environment_of(None, **variables))

    fork = weft(*arguments, db=None, stdin=given, cwd=tmp_path, **variables)

    assert fork == fresh_weft(*arguments, db=None, stdin=given, cwd=tmp_path, **variables)


def test_what_is_read_while_python_starts_is_not_left_to_a_fork() -> None:
    assert not can_fork(environment_of(None, PYTHONPROFILEIMPORTTIME="1"))
    assert not can_fork(environment_of(None, OTEL_PYTHON_TRACER_PROVIDER="x"))


def test_a_fork_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    endless = ["eval", "(define (f) (f)) (f)", "--max-steps", "1000000000000"]

    with pytest.raises(TimeoutError):
        weft_forks().run(endless, environment_of(None), cwd=str(tmp_path), stdin=b"", seconds=0.2)

    assert weft("eval", "(+ 1 2)", db=None, cwd=tmp_path).out == "3\n"
