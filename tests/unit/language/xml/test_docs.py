"""The XML of docs/reference/xml.md is read as it stands."""

import re
from pathlib import Path

from tests.batches import batched
from tests.unit.language.xml.builders import problems
from weft.language.xml.elements import ROOTS
from weft.language.xml.schema import vocabulary

PAGES = Path(__file__).parents[4] / "docs" / "reference"
PAGE = (PAGES / "xml.md").read_text()
BLOCKS = re.findall(r"^```xml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@batched("block", BLOCKS, ids=range(len(BLOCKS)))
def test_an_example_is_read(block: str) -> None:
    is_part = not block.startswith(tuple(f"<{root}" for root in ROOTS))
    assert problems(f"<task><description>d</description>{block}</task>" if is_part else block) == []


def test_the_page_shows_every_element_and_attribute() -> None:
    shown = "".join(BLOCKS)
    table = (PAGES / "language.md").read_text()
    for rule in vocabulary().types.values():
        for name in rule.attributes:
            assert f' {name}="' in shown or f"`{name}`" in PAGE or f"`{name}=`" in table, name
        for name in rule.children:  # settings may be shown as the attributes of the same names
            assert re.search(rf"<{name}[ />]", shown) or name in rule.attributes or f"`<{name}>`" in table, (
                name
            )
