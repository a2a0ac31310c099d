"""Every XML example of the specification loads, or is refused for a rule of the specification itself.

docs/reference/xml.md has the table of them; it is compared with what happens.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.batches import batched
from tests.shared_files import shared
from weft.language.ast import Atomic
from weft.language.diagnostics import InvalidProgram
from weft.language.source import Source
from weft.language.xml import read_xml
from weft.language.xml.elements import ROOTS

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "xml.md"
ROW = re.compile(r"^\| ([\w.-]+\.md:\d+) \| [^|]+ \| (?:`([\w-]+)`|loads) \|(.*)\|$", re.MULTILINE)


def examples(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the fenced XML of the documents, by file and line, without the schemas: one is never closed."""
    for path in sorted(folder.glob("*.md")):
        block: list[str] | None = None
        place = ""
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match line.strip():
                case "```xml":
                    block, place = [], f"{path.name}:{number}"
                case "```" if block is not None:
                    text = "\n".join(block)
                    if "<xs:" not in text:
                        yield place, text
                    block = None
                case _ if block is not None:
                    block.append(line)


def document(text: str) -> str:
    """Return the example, with a task around it if it is part of one."""
    tag = re.match(r"\s*<(\w+)", text)
    assert tag is not None
    if tag[1] in ROOTS:
        return text
    return (
        f"<task>{text}</task>"
        if tag[1] == "description"
        else f"<task><description>d</description>{text}</task>"
    )


def outcome(place: str, text: str) -> str:
    """Return the code of the error, or an empty text if the example loads."""
    try:
        read_xml(Source(place, ""), document(text).encode())
    except InvalidProgram as refused:
        (code,) = {problem.code for problem in refused.found}
        return code
    return ""


EXAMPLES = dict(examples(shared("spec")))
TABLE = {place: (code, rule) for place, code, rule in ROW.findall(DOCS.read_text())}


@batched("place", EXAMPLES)
def test_an_example_does_what_the_table_says(place: str) -> None:
    code, rule = TABLE[place]
    assert outcome(place, EXAMPLES[place]) == code
    assert bool(rule.strip()) == bool(code), "a refusal needs its rule"


def test_the_table_has_the_examples_and_nothing_else() -> None:
    assert TABLE.keys() == EXAMPLES.keys()
    assert len(EXAMPLES) == 15
    assert len([code for code, _ in TABLE.values() if code]) == 4


FIXES = [
    ("protocols.md:237", "<fresh_context>enabled", "<fresh_context>disabled"),
    ("protocols.md:258", "<inherit_context>subset", "<inherit_context>none"),
    ("protocols.md:666", "|none|subset", ""),
    ("protocols-first-draft.md:143", "<inherit_context>false", "<inherit_context>none"),
]


@pytest.mark.parametrize(("place", "wrong", "right"), FIXES)
def test_the_fix_the_table_gives_is_one(place: str, wrong: str, right: str) -> None:
    text = EXAMPLES[place].replace(wrong, right)
    assert text != EXAMPLES[place]
    if place == "protocols.md:666":
        text = re.sub(r"\|[\w|]+", "", text.replace("enabled|", ""))
    assert outcome(place, text) == ""


def test_the_call_of_the_specification_passes_its_words_as_text() -> None:
    (call,) = read_xml(Source("spec", ""), EXAMPLES["protocols.md:578"].encode()).forms
    assert [arg.value for arg in call.args] == ["weather_data", "standard_config"]  # type: ignore[attr-defined]


def test_the_example_template_has_its_fields() -> None:
    (task,) = read_xml(Source("spec", ""), EXAMPLES["protocols.md:743"].encode()).forms
    assert isinstance(task, Atomic)
    assert (task.model, task.criteria) == ("claude-3-sonnet", "validate, log")
    assert [one.name for one in task.inputs] == ["code"]
