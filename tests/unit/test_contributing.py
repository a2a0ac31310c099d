"""CONTRIBUTING.md names files that are there, and draws the layers that the layer test enforces."""

import re
from pathlib import Path

from tests.batches import batched
from tests.unit.test_layers import LAYERS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
NAMED = sorted(set(re.findall(r"`((?:src|tests|scripts)/[\w/.-]+)`", PAGE)))


@batched("name", NAMED)
def test_a_named_file_is_there(name: str) -> None:
    assert (ROOT / name).exists()


def test_the_likely_changes_are_described() -> None:
    rows = PAGE.partition("## Where the likely changes are made")[2].partition("\n## ")[0]

    assert len(re.findall(r"^\| (?!change|---).*`src/", rows, re.MULTILINE)) == 13


def test_every_room_is_in_the_drawing() -> None:
    drawing = PAGE.partition("```text")[2].partition("```")[0]

    assert {room for rooms in LAYERS for room in rooms if not re.search(rf"\b{room}\b", drawing)} == set()
