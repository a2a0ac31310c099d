"""Programs of files as they are kept."""

from pathlib import Path

from weft.language.reading import Surface, read_bytes
from weft.program_files import read_content
from weft.runs.program import StoredText


def file_text(path: Path, surface: Surface | None = None) -> StoredText:
    """The text of a program file; raises InvalidProgram when it cannot be read."""
    content, surface = read_content(path, surface)  # once: of a pipe there is no second time
    read_bytes(content, str(path), surface)  # says what is wrong with it, with the location
    text = content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    return StoredText(str(path), text, surface)
