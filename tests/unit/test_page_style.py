"""The pages keep to the house style: short paragraphs, words of the glossary, links that lead somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.batches import batched

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

PARAGRAPH_WORDS = 90
CELL_WORDS = 40

GENERATED: set[str] = set()
"""Pages that scripts/generate_docs.py writes; their words are those of help texts and docstrings."""

FORBIDDEN = [
    re.compile(line, re.IGNORECASE)
    for line in Path(__file__).with_name("forbidden_phrases.txt").read_text().splitlines()
    if line and not line.startswith("#")
]

_FENCED = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_NEW_BLOCK = re.compile(r"^\s*(?:[*-] |\d+\. |> |#+ )")


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).as_posix() if page.is_relative_to(DOCS) else page.name


def is_checked(page: Path) -> bool:
    return name_of(page) not in GENERATED


def prose(page: Path) -> str:
    """Return a page without its blocks of code and output."""
    return _FENCED.sub("", page.read_text())


def paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs and items of lists; tables are not among them."""
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        if lines and (not line.strip() or line.startswith("|") or _NEW_BLOCK.match(line)):
            yield " ".join(lines)
            lines = []
        if line.strip() and not line.startswith("|"):
            lines.append(line.strip())


def cells(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.startswith("|"):
            yield from re.split(r"(?<!\\)\|", line.strip("|"))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(prose(page)))
    return {heading.strip().replace(" ", "-") for heading in found}


checked_pages = batched("page", [page for page in PAGES if is_checked(page)], ids=name_of)


@checked_pages
def test_no_paragraph_and_no_cell_is_long(page: Path) -> None:
    text = prose(page)

    assert [one for one in paragraphs(text) if len(one.split()) > PARAGRAPH_WORDS] == []
    assert [one for one in cells(text) if len(one.split()) > CELL_WORDS] == []


@checked_pages
def test_no_page_uses_a_phrase_of_the_old_dialect(page: Path) -> None:
    text = re.sub(r"`[^`]+`", "", prose(page))

    assert [found[0] for phrase in FORBIDDEN for found in phrase.finditer(text)] == []


@checked_pages
def test_a_page_says_at_once_whom_it_is_for(page: Path) -> None:
    if name_of(page) != "README.md":
        assert re.match(r"# .+\n\nFor ", page.read_text())


@batched("page", PAGES, ids=name_of)
def test_links_lead_to_headings_that_are_there(page: Path) -> None:
    for target, anchor in _LINK.findall(prose(page)):
        linked = (page.parent / target).resolve() if target else page
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), f"{target}#{anchor}"


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "index.md").read_text()
    pages = {name_of(page) for page in PAGES if page.is_relative_to(DOCS)} - {"index.md"}

    assert {name for name in pages if f"]({name})" not in index and "decisions/" not in name} == set()


def test_the_glossary_defines_each_word_once_and_in_order() -> None:
    words = re.findall(r"^\| ([^|]+) \|", (DOCS / "glossary.md").read_text(), re.MULTILINE)[1:]

    assert words == sorted(set(words), key=str.lower)


def test_pages_that_are_exempt_are_there() -> None:
    assert {name_of(page) for page in PAGES} >= GENERATED
