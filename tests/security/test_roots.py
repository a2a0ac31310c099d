"""No path, and no race, leads out of the roots."""

import importlib
import itertools
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.command_line import ended, weft
from weft.config.paths import read_start
from weft.errors import RequestError
from weft.memory.files.walk import Reader
from weft.store.sqlite.connection import connect
from weft.tools.roots import Roots
from weft.tools.safe_open import PathRefused

CANARY = "canary-7f3a"

UP = [
    "..",
    "../",
    "..//",
    "./..",
    ".././",
    "..\\",
    "%2e%2e",
    "%2e%2e/",
    "..%2f",
    "..;",
    "..",
    "\uff0e\uff0e",
    "\u2024\u2024",
    "....//",
]
MIDDLES = [
    "",
    "sub",
    "sub/deep",
    "link-in",
    "link-out",
    "link-up",
    "sub/link-out",
    "loop",
    ".",
    "//",
    "~",
    "file://",
]
TARGETS = ["outside/secret", "secret", "etc/passwd", "/etc/passwd", "proc/self/environ", "link-out/secret"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a root with links of every kind, and a secret beside it."""
    with tempfile.TemporaryDirectory() as made:
        base = Path(made).resolve()
        (base / "outside").mkdir()
        (base / "outside" / "secret").write_text(CANARY)
        (base / "secret").write_text(CANARY)
        (base / CANARY).touch()  # what a listing would show
        (base / "outside" / CANARY).touch()
        root = base / "root"
        (root / "sub" / "deep").mkdir(parents=True)
        (root / "link-in").symlink_to("sub")
        (root / "link-out").symlink_to("../outside")
        (root / "link-up").symlink_to("..")
        (root / "loop").symlink_to(".")
        (root / "sub" / "link-out").symlink_to(base / "outside")
        yield root


def payloads(root: Path) -> Iterator[str]:
    """Thousands of paths that try to get out."""
    for up, count, middle, target in itertools.product(UP, (1, 3, 9), MIDDLES, TARGETS):
        climb = "/".join([up] * count)
        yield f"{middle}/{climb}/{target}" if middle else f"{climb}/{target}"
        yield f"{root}/{middle}/{climb}/{target}"
    for target in ("outside/secret", "secret"):
        yield str(root.parent / target)
        yield f"//{root.parent}/{target}"
        yield f"/proc/self/cwd/{target}"
        yield f"/proc/self/root{root.parent}/{target}"
    rng = random.Random(5)
    words = [
        "..",
        ".",
        "",
        "sub",
        "deep",
        "link-in",
        "link-out",
        "link-up",
        "loop",
        "outside",
        "secret",
        "root",
        root.name,
    ]
    for _ in range(4000):
        parts = [rng.choice(words) for _ in range(rng.randint(1, 14))]
        yield rng.choice(["", "", "/", f"{root}/", f"{root.parent}/"]) + "/".join(parts)


def acts_on(roots: Roots) -> list[Callable[[str], str]]:
    """Return functions that read, list and write a path."""
    return [
        lambda path: roots.read(path).text,
        lambda path: str(roots.list(path)),
        lambda path: str(roots.write(path, "owned")),
    ]


def test_no_path_of_thousands_leads_out(folder: Path) -> None:
    roots = Roots([folder])
    tried = refused = 0
    for path in payloads(folder):
        tried += 1
        for act in acts_on(roots):
            try:
                found = act(path)
            except RequestError:
                refused += 1
                continue
            assert CANARY not in found, path
    assert tried > 8000
    assert 0 < refused < 3 * tried  # some lead to something inside: else nothing was tried
    assert (folder.parent / "secret").read_text() == CANARY
    assert (folder.parent / "outside" / "secret").read_text() == CANARY
    assert sorted(path.name for path in folder.parent.iterdir()) == [CANARY, "outside", "root", "secret"]
    assert sorted(path.name for path in (folder.parent / "outside").iterdir()) == [CANARY, "secret"]


SWAPPER = """
import ctypes, os, sys
root, outside = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
os.symlink(outside, os.path.join(root, "b"))
print("ready", flush=True)
a, b = (os.path.join(root, name).encode() for name in "ab")
while True:
    libc.renameat2(-100, a, -100, b, 2)  # RENAME_EXCHANGE: there is always one, folder or link
"""


@pytest.mark.skipif(sys.platform != "linux", reason="swapping in one step is Linux's")
def test_a_folder_that_is_swapped_for_a_link_all_the_time_never_leads_out(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "a").mkdir(parents=True)
    (root / "a" / "secret").write_text("inside")
    outside.mkdir()
    (outside / "secret").write_text(CANARY)
    roots = Roots([root])
    seen: dict[str, int] = {"inside": 0, "refused": 0}
    swapper = subprocess.Popen(
        [sys.executable, "-c", SWAPPER, root, outside], stdout=subprocess.PIPE, start_new_session=True
    )
    with ended(swapper):
        assert swapper.stdout is not None
        assert swapper.stdout.readline() == b"ready\n"
        for _ in range(100_000):
            for act, path in zip(acts_on(roots), ("a/secret", "a", "a/made"), strict=True):
                try:
                    found = act(path)
                except RequestError:
                    seen["refused"] += 1
                else:
                    assert CANARY not in found
                    seen["inside"] += 1
            if min(seen.values()) > 1500:
                break
    assert min(seen.values()) > 0, "the swapper never met us: nothing was tested"
    assert [path.name for path in outside.iterdir()] == ["secret"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with a store outside of `.weft`, and functions that tasks may call."""
    (tmp_path / "weft.toml").write_text(
        '[executors.python]\nmodules = ["jobs", "shop"]\npath = ["src"]\n[tools]\nmodules = ["mytools"]\n'
    )
    for file in ("src/jobs.py", "src/shop/__init__.py", "src/shop/prices.py", "helpers.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    (tmp_path / "mytools.py").write_text("import helpers\n")
    assert weft("flow", "submit", "-", db=str(tmp_path / "data.db"), stdin='{"name": "x"}').code == 0
    return tmp_path


def write(project: Path, path: str) -> str:
    """Return the error of `system:write_file` when a program calls it; empty if the file was written."""
    program = f'(begin (system:write_file :path "{path}" :content "import os") 1)'
    return weft("eval", program, db=str(project / "data.db"), cwd=project).err


@pytest.mark.parametrize("path", ["data.db", "data.db-wal", "data.db-shm", "data.db-SHM", "data.db-journal"])
def test_a_store_outside_of_its_folder_is_not_written(project: Path, path: str) -> None:
    assert "belongs to a SQLite database" in write(project, path)

    assert weft("tasks", "list", "--json", db=str(project / "data.db")).json["total"] == 1


@pytest.mark.parametrize(
    "path",
    [
        "weft.toml",
        "src/jobs.py",
        "src/jobs/__init__.py",
        "src/shop/__init__.py",
        "src/shop/new.py",
        "src/shop/__pycache__/prices.cpython-314.pyc",
        "mytools.py",
        "mytools/later.py",
    ],
)
def test_modules_that_tasks_and_tools_run_are_not_written(project: Path, path: str) -> None:
    assert "decides what may run" in write(project, path)


def test_modules_that_the_process_has_imported_are_not_written(project: Path) -> None:
    sys.path.append(str(project))
    try:
        importlib.import_module("helpers")
        roots = Roots([project], keeps_imports=True)
        with pytest.raises(PathRefused, match="decides what may run"):
            roots.write("helpers.py", "import os")
        assert roots.write("other.py", "import os")
    finally:
        sys.path.remove(str(project))
        sys.modules.pop("helpers", None)


@pytest.mark.parametrize(
    "path",
    ["helpers.py", "Helpers.py", "helpers/__init__.py", "code/h.py", "__pycache__/helpers.cpython-314.pyc"],
)
def test_what_would_be_imported_instead_of_a_module_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "h.py").write_text("")
    (tmp_path / "helpers.py").symlink_to("code/h.py")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("helpers")
    try:
        with pytest.raises(PathRefused):
            Roots([tmp_path], keeps_imports=True).write(path, "import os")
        assert Roots([tmp_path], keeps_imports=True).write("code/helpers.py", "import os")
    finally:
        del sys.modules["helpers"]


@pytest.mark.parametrize("path", ["bin/weft", "pyvenv.cfg", "lib/site-packages/evil.pth"])
def test_what_python_runs_when_it_starts_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "venv").symlink_to("real")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))

    with pytest.raises(PathRefused, match="decides what may run"):
        Roots([tmp_path], keeps_imports=True).write(f"real/{path}", "import os")
    assert Roots([tmp_path]).write(f"real/{path}", "import os")


def test_own_modules_are_written_when_the_settings_say_so(project: Path) -> None:
    with (project / "weft.toml").open("a") as file:
        file.write("allow_own_modules = true\n")

    assert write(project, "src/jobs.py") == ""
    assert (project / "src" / "jobs.py").read_text() == "import os"
    assert "decides what may run" in write(project, "weft.toml")
    assert "belongs to a SQLite database" in write(project, "data.db")


def _try_to_write(database: Path) -> str:
    """Write to a database from another process, and return the error that it prints."""
    program = (
        "import sqlite3, sys\n"
        "other = sqlite3.connect(sys.argv[1], timeout=0.05, isolation_level=None)\n"
        "try:\n"
        "    other.execute('INSERT INTO t VALUES (2)')\n"
        "except sqlite3.OperationalError as error:\n"
        "    print(error, end='')\n"
        "other.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(database)], capture_output=True, text=True, check=True
    )
    return done.stdout


def _read_by_the_index(root: Path, path: str) -> None:
    with Reader(root) as reader:
        reader.read(path, 100)


LOOKS: dict[str, Callable[[Path, str], object]] = {
    "read": lambda root, path: Roots([root]).read(path),
    "write": lambda root, path: Roots([root]).write(path, "text"),
    "place": lambda root, path: Roots([root]).place(path),
    "index": _read_by_the_index,
    "named": lambda root, path: read_start(root / path, 100),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("path", ["data.db", "data.db-shm", "link"])
def test_looking_at_a_store_lets_nobody_write_into_its_transaction(
    tmp_path: Path, path: str, look: str
) -> None:
    database = tmp_path / "data.db"
    with closing(connect(database, is_reader=False, synchronous="NORMAL")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (x)")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t VALUES (1)")
        os.link(f"{database}-shm", tmp_path / "link")

        with suppress(PathRefused, OSError):
            LOOKS[look](tmp_path, path)

        assert _try_to_write(database) == "database is locked"
        assert Path(f"{database}-wal").exists()
        connection.execute("COMMIT")
    with closing(connect(database, is_reader=True, synchronous="NORMAL")) as connection:
        assert connection.execute("SELECT x FROM t").fetchall() == [(1,)]


def test_files_that_the_process_has_open_and_are_no_databases_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    with (tmp_path / "a.txt").open("r+"):
        assert Roots([tmp_path]).read("a.txt").text == "text"
