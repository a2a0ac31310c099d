"""Starts aider as it is installed, and holds it to what weft allows. Run by aider's own Python, not imported.

`python launcher.py LEASH ARGUMENT...`; LEASH is a JSON file of
`weft.integrations.aider.command_line`. Held are aider's own
writes, and which programs it starts: a model that reads a malicious file may answer with an edit of
`../../.bashrc` or of a git hook, and `--yes-always` says yes to that too. Configuration that lies in the
repository (`.aider.conf.yml`, `.env`) could name commands to run, or another server for the key: it is not
read.
"""

import sys

sys.path.pop(0)  # the folder of this file: its neighbours are no modules of aider's

import json
import os
from typing import Any

TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

PATHS_OF = {
    "os.chmod": (0,),
    "os.link": (0, 1),
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.symlink": (1,),
    "os.truncate": (0,),
}
"""Audit events of changes to files, and which of their arguments are paths."""

STARTS = frozenset({"os.exec", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn"})
"""Audit events of programs that are started other than by `subprocess`."""

HELD = ("InputOutput", "get_parser", "load_dotenv_files", "main", "setup_git")
"""What this file uses of `aider.main`."""

SQLITE = b"SQLite format 3\0"
OWN = ".aider"
"""How the names of aider's own files begin: among them is a database that it makes anew if it is damaged."""


class Guard:
    """Asked at every audit event; raises PermissionError at what is not allowed."""

    def __init__(self, leash: "dict[str, Any]") -> None:
        self.folders = tuple(os.path.realpath(folder) for folder in leash["writable"])
        self.closed = frozenset(leash["closed_folders"])
        self.kept = frozenset(leash["kept_files"])
        self.programs = frozenset(leash["programs"])

    def __call__(self, event: str, arguments: "tuple[Any, ...]") -> None:
        if event == "open":
            path, _, flags = arguments
            if flags & TO_WRITE and not isinstance(path, int):
                self.check_path(path)
        elif event in PATHS_OF:
            for index in PATHS_OF[event]:
                self.check_path(arguments[index])
        elif event == "subprocess.Popen":
            self.check_program(arguments[0])
        elif event in STARTS:
            raise PermissionError(f"weft does not let aider start programs ({event})")

    def check_program(self, executable: Any) -> None:
        name = os.fsdecode(executable).rpartition(os.sep)[2]
        if name not in self.programs:
            raise PermissionError(f"weft does not let aider start '{name}'")

    def check_path(self, path: Any) -> None:
        place = os.path.realpath(os.fsdecode(path))
        if place.startswith("/dev/"):
            return
        folder = next((folder for folder in self.folders if is_inside(place, folder)), None)
        if folder is None:
            raise PermissionError(f"weft does not let aider write outside of its folders: {place}")
        names = place[len(folder) :].casefold().split("/")
        if not self.closed.isdisjoint(names) or names[-1] in self.kept:
            raise PermissionError(f"weft does not let aider write {place}")
        if not any(name.startswith(OWN) for name in names) and belongs_to_database(place):
            raise PermissionError(f"weft does not let aider write a database: {place}")


def belongs_to_database(place: str) -> bool:
    """Whether a file is a SQLite database or lies beside one: weft's store and index may lie anywhere."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        database = place[: len(place) - len(suffix)]
        if place.casefold().endswith(suffix) and os.path.isfile(database):  # noqa: PTH113 - as below
            try:
                with open(database, "rb") as file:  # noqa: PTH123 - nothing is imported that need not be
                    if file.read(len(SQLITE)) == SQLITE:
                        return True
            except OSError:
                pass
    return False


def is_inside(place: str, folder: str) -> bool:
    """Whether a resolved path is a folder, or in it."""
    return place == folder or place.startswith(folder.rstrip(os.sep) + os.sep)


def ignore_configuration(program: Any) -> None:
    """Have aider read no configuration, and set up nothing in a repository."""
    get_parser = program.get_parser
    program.get_parser = lambda files, git_root: get_parser([], git_root)
    program.load_dotenv_files = lambda *_: []
    program.setup_git = lambda git_root, io: git_root  # it would write a made-up name into .git/config


def begin_with(program: Any, text: str) -> None:
    """Put a text into the first input line: the person reads it, changes it, and sends it."""
    made = program.InputOutput

    def with_text(*args: Any, **kwargs: Any) -> Any:
        io = made(*args, **kwargs)
        io.placeholder = text
        return io

    program.InputOutput = with_text


def run() -> None:
    """Run aider on its leash."""
    with open(sys.argv[1], encoding="utf-8") as file:  # noqa: PTH123 - nothing is imported that need not be
        leash = json.load(file)
    sys.argv[:2] = ["aider"]
    from aider import main as program

    missing = [name for name in HELD if not hasattr(program, name)]
    if missing:
        sys.exit(f"weft cannot hold this version of aider: its main has no {', '.join(missing)}")
    ignore_configuration(program)
    if leash["first_input"]:
        begin_with(program, leash["first_input"])
    if leash["is_confined"]:
        sys.addaudithook(Guard(leash))
    sys.exit(program.main())


if __name__ == "__main__":
    run()
