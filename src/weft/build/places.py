"""Where a node was built: the line of Python that called the builder."""

import sys
from functools import lru_cache
from types import FrameType

from weft.language.spans import Source, Span

_PACKAGE = __name__.rpartition(".")[0]


@lru_cache(maxsize=1024)
def _source(name: str) -> Source:
    return Source(name, "")


def here() -> Span:
    """The place of the first caller outside this package; the column is not known."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - inspect.stack reads files and takes milliseconds
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    if frame is None:
        return Span(_source("<built>"), 1, 0)
    return Span(_source(frame.f_code.co_filename), frame.f_lineno, 0)


def inside(span: Span, what: str, text: str) -> Span:
    """The place of the first character of a text that was written there.

    The text is a source of its own, so that a problem in it is shown with its line and a caret.
    """
    return Span(Source(f"{span}:{what}", text), 1, 1)


def _is_ours(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name == _PACKAGE or name.startswith(f"{_PACKAGE}.")
