"""What the reader makes of a text, before it means anything: names, keywords, constants and lists."""

from msgspec import Struct

from weft.language.spans import Span
from weft.language.tree import Scalar


class Name(Struct, frozen=True, gc=False):
    """A symbol: `review`, `answer.items[0]`, `|any text|`."""

    span: Span
    text: str
    """All of it, without bars: what `quote` gives."""
    name: str
    path: tuple[str | int, ...] = ()
    is_barred: bool = False
    """Written in bars: a name and nothing else, never a special form."""


class Keyword(Struct, frozen=True, gc=False):
    """`:name`."""

    span: Span
    name: str


class Constant(Struct, frozen=True, gc=False):
    """A number, a string, `true`, `false` or `nil`."""

    span: Span
    value: Scalar


class List(Struct, frozen=True, gc=False):
    """Data in parentheses, or `'x`, which is `(quote x)`."""

    span: Span
    items: list["Data"]
    is_prefix: bool = False
    """Written `'x`: it ends with its datum and not with a parenthesis."""


Data = Name | Keyword | Constant | List
