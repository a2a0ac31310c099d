"""Elements of `context_assembly`."""

import pytest

from weft.memory.context.assembly import fits_path, is_excluded, split_elements
from weft.memory.protocol import Chunk, FileFacts


def a_chunk(path: str = "src/shop/prices.py", *, symbols: tuple[str, ...] = (), text: str = "") -> Chunk:
    return Chunk(root="/r", path=path, first_line=1, last_line=2, text=text, symbols=symbols)


def facts(title: str) -> FileFacts:
    return FileFacts(root="/r", path="a", size=1, lines=1, title=title, changed_at=0.0)


def test_elements_are_lines_or_stand_between_commas() -> None:
    text = "- the price list,  `tests/*`\n\n* Login page; ... ,"

    assert split_elements(text) == ("the price list", "tests/*", "Login page")
    assert split_elements(None) == ()


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("tests/*", "tests/unit/test_a.py", True),
        ("tests", "tests/unit/test_a.py", True),
        ("unit/", "tests/unit/test_a.py", True),
        ("*.md", "docs/a.md", True),
        ("prices.py", "src/shop/prices.py", True),
        ("./src/shop", "src/shop/prices.py", True),
        ("test", "tests/a.py", False),
        ("*.md", "a.mdx", False),
    ],
)
def test_a_pattern_means_a_path_a_folder_or_a_name(pattern: str, path: str, fits: bool) -> None:
    assert fits_path(pattern, path) is fits


@pytest.mark.parametrize(
    ("elements", "chunk", "is_out"),
    [
        (("tests",), a_chunk("tests/test_prices.py"), True),
        (("legacy pricing code",), a_chunk("src/legacyPricing.py"), True),
        (("the rounding of prices",), a_chunk(symbols=("price_rounding",)), True),
        (("the rounding of taxes",), a_chunk(symbols=("price_rounding",)), False),
        (("taxes",), a_chunk(text="taxes taxes taxes"), False),
        (("the code of files",), a_chunk("code/file.py"), False),
        (("*.py",), a_chunk(), True),
        ((), a_chunk(), False),
    ],
)
def test_words_exclude_what_is_called_so_not_what_speaks_of_it(
    elements: tuple[str, ...], chunk: Chunk, is_out: bool
) -> None:
    assert is_excluded(elements, chunk, None) is is_out


def test_the_title_of_a_file_is_one_of_its_names() -> None:
    assert is_excluded(("release notes",), a_chunk("docs/x.md"), facts("Release notes"))
