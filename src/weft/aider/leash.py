"""What aider may do: read by `launcher.py`, in the process that runs aider."""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from weft.tools.roots import CLOSED_FOLDERS, KEPT_FILES

LAUNCHER = Path(__file__).with_name("launcher.py")

CONFIGURATION = frozenset({".aider.conf.yml", ".aider.model.settings.yml", ".aider.model.metadata.json"})
"""What would decide how the next aider runs, where a person starts it without weft."""


class Leash(Struct, frozen=True, kw_only=True):
    """The launcher's first argument, as a JSON file."""

    writable: tuple[str, ...] = ()
    """The folders that aider itself may write in."""
    closed_folders: tuple[str, ...] = tuple(sorted(CLOSED_FOLDERS))
    """Not written in, wherever they are below those. Git writes its own folder itself."""
    kept_files: tuple[str, ...] = tuple(sorted(KEPT_FILES | CONFIGURATION))
    programs: tuple[str, ...] = ("git",)
    """What it may start, by name."""
    is_confined: bool = True
    """Whether all this holds; not while a person is at the keyboard, who decides."""
    first_input: str = ""
    """What stands in the input line when a person gets it."""


def automatic_leash(roots: Iterable[str | Path], scratch: Path, kept_files: Iterable[str] = ()) -> Leash:
    """Where nobody watches: writes inside the roots, in its scratch folder, and in aider's own."""
    own = Path.home() / ".aider"
    kept = KEPT_FILES | CONFIGURATION | {name.casefold() for name in kept_files}
    return Leash(writable=(*map(str, roots), str(scratch), str(own)), kept_files=tuple(sorted(kept)))


def interactive_leash(prompt: str) -> Leash:
    """A person decides what is done, and gets the prompt to send."""
    return Leash(is_confined=False, first_input=prompt)
