"""What memory may give to a task, and how: the table `[memory]` of `weft.toml`."""

from typing import Annotated

from msgspec import Meta, Struct

from weft.model_settings import Positive


class MemorySettings(Struct, frozen=True, kw_only=True):
    """`[memory]`."""

    roots: tuple[str, ...] = ()
    """Folders whose files are indexed; in `weft.toml` relative to that file. None: the roots of `[tools]`."""
    max_file_bytes: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 1_000_000
    """Larger files are left out. A file is read at once, so that there is a most."""
    ignore: tuple[str, ...] = ()
    """More of what is left out: patterns as in a `.gitignore` at each root."""
    max_tokens: Positive = 8_000
    """How many tokens memory gives to one task; less where the model's window has less room."""
    max_pieces: Positive = 20
    """How many pieces of files are looked for."""
    max_files: Positive = 5
    """How many files `file_paths` with a description gives."""
    embeddings: str | None = None
    """`local:NAME`: the embedded model that puts what was found by words into an order by meaning too."""
    rerank: bool = False
    """Whether the task's model is asked to put what was found into order."""
