"""The programs of `pairs` have nothing wrong with them."""

from pathlib import Path

from tests.batches import batched
from tests.conformance.language.test_pairs import FOLDER
from weft.language.check import check_program
from weft.runs.files import read_file


@batched("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_the_checks_accept_it(path: Path) -> None:
    assert check_program(read_file(path)) == []
