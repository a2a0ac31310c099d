"""Runs of programs that use the texts of a library, on every store."""

from pathlib import Path

import pytest

from tests.runs_bench import MortalStore, RunsBench
from weft.app.programs import RunOptions, check_program, load_program
from weft.config.settings import Settings
from weft.language.diagnostics import InvalidProgram
from weft.store.protocol import TaskStore
from weft.tasks.record import Status

LIBRARY = """(deftask lib_ask (x) :instructions "lib {{x}}")
(define (twice x) (list (lib_ask x) (lib_ask x)))
(define setting (lib_ask "a value"))
(lib_ask "paid by the library")
"""


@pytest.fixture
def runs(store: TaskStore) -> RunsBench:
    return RunsBench(store, lambda prompt: prompt)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "lib.sexp"
    path.write_text(LIBRARY)
    return path


async def test_a_call_in_a_library_is_not_performed_and_takes_no_step_of_the_program(
    runs: RunsBench, library: Path
) -> None:
    program = load_program('(list (lib_ask "main") (twice "end"))', RunOptions(libraries=[library]))
    check_program(program, {}, Settings(db="unused"))
    mortal = MortalStore(runs.store)

    def dying(prompt: str) -> str:
        if prompt == "lib end":
            mortal.die()
        return prompt

    runs.answer = dying
    root_id = await runs.app().begin_program(program, {}, name="run")
    assert await runs.live(root_id, mortal)
    runs.answer = lambda prompt: prompt
    outcome = await runs.go_on(root_id)

    assert outcome.status is Status.COMPLETED
    assert outcome.result is not None
    assert outcome.result.value == ["lib main", ["lib end", "lib end"]]
    assert set(runs.asked) == {"lib main", "lib end"}
    keys = [step.key for step in await runs.store.steps_of(root_id)]
    assert len(keys) == len(set(keys)) == 3


def test_a_name_that_a_library_only_sets_is_refused_before_anything_runs(library: Path) -> None:
    with pytest.raises(InvalidProgram, match="setting"):
        check_program(
            load_program("(list setting)", RunOptions(libraries=[library])), {}, Settings(db="unused")
        )
