"""What a file is for, as its path tells: a task is more often about a program than about its tests."""

import re
from collections.abc import Set
from functools import lru_cache

_TEST = re.compile(
    r"(^|/)(tests?|testing|specs?|fixtures|benchmarks?|bench|examples?)/|(^|/)test_|[._]test\.[^/]*$|(^|/)conftest\.py$"
)
"""Whole folders' names, and how the names of tests begin or end."""

_TEXT = re.compile(
    r"\.(md|rst|txt|adoc|json|jsonl|lock|toml|cfg|ini|ya?ml|csv|po)$|(^|/)docs?/"
    r"|(^|/)(changes|change-?log|licen[cs]e(-[^/.]+)?|copying|notice|authors|history|news|readme)$",
    re.IGNORECASE,
)
"""Suffixes of texts, folders of documentation, and texts that have no suffix: `history.py` is a program."""

_MARKUP = re.compile(r"\.(html?|css|scss|svg|xml|xsd|min\.js)$", re.IGNORECASE)

_KINDS = (
    (_TEST, 0.25, frozenset(("test", "fixtur", "benchmark", "exampl", "spec", "conftest"))),
    (_TEXT, 0.25, frozenset(("doc", "document", "readm", "changelog", "licens", "config", "configur"))),
    (_MARKUP, 0.25, frozenset(("html", "css", "templat", "svg", "xml", "page", "style", "stylesheet"))),
)
"""How files of a kind are found, what they count, and the stems of words that ask for them."""


def kind_factor(path: str, stems: Set[str]) -> float:
    """What the score of a file is multiplied by; 1 unless it is of a kind that the query does not ask for."""
    kind = _kind_of(path)
    if kind is None:
        return 1.0
    factor, words = kind
    return 1.0 if words & stems or path.rsplit(".", 1)[-1].lower() in stems else factor


@lru_cache(maxsize=20_000)
def _kind_of(path: str) -> tuple[float, frozenset[str]] | None:
    """What a file counts and the stems that ask for it; remembered, as every query finds the same files."""
    return next(((factor, words) for pattern, factor, words in _KINDS if pattern.search(path)), None)
