"""Programs of files as they are kept."""

from pathlib import Path

from weft.language.reading import Surface
from weft.program_files import SUFFIXES, read_file
from weft.runs.program import StoredText


def file_text(path: Path, surface: Surface | None = None) -> StoredText:
    """The text of a program file; raises InvalidProgram when it cannot be read."""
    read_file(path, surface)  # says what is wrong with it, with the place
    return StoredText(str(path), path.read_text("utf-8"), surface or SUFFIXES.get(path.suffix.lower()))
