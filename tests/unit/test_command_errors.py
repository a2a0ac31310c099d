"""What a command says when the system refuses something."""

import errno
from pathlib import Path

import click
import pytest

from weft.cli.running import guarded


def saying_of(error: OSError, capsys: pytest.CaptureFixture[str]) -> str:
    """What is said of an error that a command let by."""

    @click.command()
    def fails() -> None:
        raise error

    assert guarded(fails, []) == 1
    return capsys.readouterr().err


def test_an_error_of_a_file_is_not_taken_for_one_of_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    refused = OSError(errno.EISDIR, "Is a directory", str(Path("some") / "folder"))
    full = OSError(errno.ENOSPC, "No space left on device")

    assert saying_of(refused, capsys) == "error: file-failed: some/folder: Is a directory\n"
    assert saying_of(full, capsys).startswith("error: output-failed: cannot write the output: No space")
