"""The JSON parsing test suite: what a reader must accept (y_), refuse (n_), or may do either with (i_)."""

import contextlib
from pathlib import Path

import pytest

from tests.batches import batched
from tests.shared_files import shared
from weft.tasks.parsing.problems import MalformedJson, decode

FILES = sorted(shared("data", "json-parsing").iterdir())


def files(prefix: str) -> list[Path]:
    return [file for file in FILES if file.name.startswith(prefix)]


def test_the_suite_is_there() -> None:
    assert (len(files("y_")), len(files("n_")), len(files("i_"))) == (95, 188, 35)


@batched("file", files("y_"), ids=lambda file: file.stem)
def test_text_that_is_json_is_accepted(file: Path) -> None:
    decode(file.read_bytes())


@batched("file", files("n_"), ids=lambda file: file.stem)
def test_text_that_is_no_json_is_refused(file: Path) -> None:
    with pytest.raises(MalformedJson):
        decode(file.read_bytes(), source=file.name)


@batched("file", files("i_"), ids=lambda file: file.stem)
def test_text_that_readers_differ_on_is_accepted_or_refused_and_nothing_else(file: Path) -> None:
    with contextlib.suppress(MalformedJson):
        decode(file.read_bytes())
