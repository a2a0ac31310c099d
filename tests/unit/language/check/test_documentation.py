"""The page on checks shows what they say."""

import re
from pathlib import Path

from tests.batches import batched
from tests.unit.language.check.checking import messages

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "reference" / "checks.md").read_text()
BLOCKS = re.findall(r"```lisp\n(.*?)```\n(?:```text\n(.*?)```)?", PAGE, re.DOTALL)


@batched(("program", "said"), BLOCKS)
def test_every_example_is_told_as_the_page_says(program: str, said: str) -> None:
    assert messages(program) == said.splitlines()


def test_every_code_has_its_place_on_the_page() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "src/weft/language/check").glob("*.py"))
    used = set(re.findall(r"(?:note|LanguageProblem)\([^\"]*?\"([a-z]+(?:-[a-z]+)+)\"", sources))

    assert len(used) > 10
    assert {code for code in used if f"### {code}\n" not in PAGE} == set()


def test_every_code_of_the_page_has_an_example() -> None:
    sections = re.findall(r"^### (\S+)\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE)
    without = {code for code, section in sections if f": {code}: " not in section}

    assert without == {"program-too-deep"}
