"""Starts the installed aider with weft's restrictions. Run by aider's own Python, not imported.

`python launcher.py RESTRICTIONS ARGUMENT...`; RESTRICTIONS is a JSON file of
`weft.integrations.aider.command_line.Restrictions`. They limit aider's own writes and the executables that it
starts: a model that reads a malicious file may respond with an edit of `../../.bashrc` or of a git hook, and
`--yes-always` accepts that too. Configuration files in the repository (`.aider.conf.yml`, `.env`) are not
read, because they could name commands to run, or another server for the key.
"""

import sys

sys.path.pop(0)  # the folder of this file, whose modules must not shadow those of aider

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
"""Audit events of file changes, and the indexes of their path arguments."""

STARTS = frozenset({"os.exec", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn"})
"""Audit events of starting an executable without `subprocess`; all are refused."""

USED_NAMES = ("InputOutput", "get_parser", "load_dotenv_files", "main", "setup_git")
"""The names of `aider.main` that this file uses."""

SQLITE = b"SQLite format 3\0"
OWN = ".aider"
"""Prefix of aider's own files. Aider may write databases among them, such as its cache."""


class Guard:
    """Audit hook that raises PermissionError for actions that are not allowed."""

    def __init__(self, restrictions: "dict[str, Any]") -> None:
        self.folders = tuple(os.path.realpath(folder) for folder in restrictions["writable"])
        self.closed = frozenset(restrictions["closed_folders"])
        self.kept = frozenset(restrictions["kept_files"])
        self.programs = frozenset(restrictions["programs"])

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
            raise PermissionError(f"weft does not let aider start executables ({event})")

    def check_program(self, executable: Any) -> None:
        name = os.fsdecode(executable).rpartition(os.sep)[2]
        if name not in self.programs:
            raise PermissionError(f"weft does not let aider start '{name}'")

    def check_path(self, path: Any) -> None:
        real_path = os.path.realpath(os.fsdecode(path))
        if real_path.startswith("/dev/"):
            return
        folder = next((folder for folder in self.folders if is_inside(real_path, folder)), None)
        if folder is None:
            raise PermissionError(f"weft does not let aider write outside of its folders: {real_path}")
        names = real_path[len(folder) :].casefold().split("/")
        if not self.closed.isdisjoint(names) or names[-1] in self.kept:
            raise PermissionError(f"weft does not let aider write {real_path}")
        if not any(name.startswith(OWN) for name in names) and is_database_file(real_path):
            raise PermissionError(f"weft does not let aider write a database: {real_path}")


def is_database_file(path: str) -> bool:
    """Return True for a SQLite database or its journal: weft's store and index may be in any folder."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        database = path[: len(path) - len(suffix)]
        if path.casefold().endswith(suffix) and os.path.isfile(database):  # noqa: PTH113 - as below
            try:
                with open(database, "rb") as file:  # noqa: PTH123 - avoids the import of pathlib
                    if file.read(len(SQLITE)) == SQLITE:
                        return True
            except OSError:
                pass
    return False


def is_inside(path: str, folder: str) -> bool:
    """Return True if a resolved path is the folder or inside it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def ignore_configuration(program: Any) -> None:
    """Keep aider from reading configuration files and from configuring the repository."""
    get_parser = program.get_parser
    program.get_parser = lambda files, git_root: get_parser([], git_root)
    program.load_dotenv_files = lambda *_: []
    program.setup_git = lambda git_root, io: git_root  # it would write a made-up name into .git/config


def set_first_input(program: Any, text: str) -> None:
    """Put a text into the first input line, for the person to edit and send."""
    make_io = program.InputOutput

    def with_text(*args: Any, **kwargs: Any) -> Any:
        io = make_io(*args, **kwargs)
        io.placeholder = text
        return io

    program.InputOutput = with_text


def run() -> None:
    """Run aider with its restrictions."""
    with open(sys.argv[1], encoding="utf-8") as file:  # noqa: PTH123 - avoids the import of pathlib
        restrictions = json.load(file)
    sys.argv[:2] = ["aider"]
    from aider import main as program

    missing = [name for name in USED_NAMES if not hasattr(program, name)]
    if missing:
        sys.exit(f"weft cannot restrict this version of aider: aider.main has no {', '.join(missing)}")
    ignore_configuration(program)
    if restrictions["first_input"]:
        set_first_input(program, restrictions["first_input"])
    if restrictions["is_confined"]:
        sys.addaudithook(Guard(restrictions))
    sys.exit(program.main())


if __name__ == "__main__":
    run()
