"""What a command says when the system refuses something."""

import errno
from pathlib import Path
from typing import Any

import click
import pytest

import weft
from weft.cli.invoke import run_command
from weft.errors import OutOfMemory
from weft.testing.in_memory_effects import InMemoryEffects


def saying_of(error: Exception, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what is printed for an error that a command does not handle."""

    @click.command()
    def fails() -> None:
        raise error

    assert run_command(fails, []) == 1
    return capsys.readouterr().err


def test_an_error_of_a_file_is_not_taken_for_one_of_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    refused = OSError(errno.EISDIR, "Is a directory", str(Path("some") / "folder"))
    full = OSError(errno.ENOSPC, "No space left on device")

    assert saying_of(refused, capsys) == "error: file-failed: some/folder: Is a directory\n"
    assert saying_of(full, capsys).startswith("error: output-failed: cannot write the output: No space")


def test_too_little_memory_is_not_called_a_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert saying_of(MemoryError(), capsys).startswith(
        "error: out-of-memory: it needs more memory than there"
    )


async def test_an_effect_that_runs_out_of_memory_is_not_called_a_bug() -> None:
    class Effects(InMemoryEffects):
        async def call_tool(self, *arguments: Any, **named: Any) -> Any:
            raise MemoryError

    with pytest.raises(OutOfMemory, match="an effect failed: memory ran out"):
        await weft.evaluate_async("(system:get_time)", effects=Effects())
