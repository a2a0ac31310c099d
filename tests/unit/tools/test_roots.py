"""Files inside the roots are read, listed and written."""

import os
import socket
import stat
from pathlib import Path

import pytest

from weft.tools import roots as module
from weft.tools.roots import FolderEntry, Roots
from weft.tools.safe_open import FileUnavailable, PathRefused


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text("canary")
    return folder


@pytest.mark.parametrize("path", ["a.txt", "./a.txt", "sub/../a.txt", "sub//.././a.txt"])
def test_a_file_is_read_by_any_path_that_stays_inside(root: Path, path: str) -> None:
    (root / "sub").mkdir()
    (root / "a.txt").write_text("hello")

    assert Roots([root]).read(path).text == "hello"


def test_an_absolute_path_may_be_in_any_root(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    roots = Roots([tmp_path / "one", tmp_path / "two"])

    assert roots.read("file").text == "one"
    assert roots.read(str(tmp_path / "two" / "file")).text == "two"


def test_a_root_inside_another_is_reached_through_the_outer_one(root: Path) -> None:
    (root / "sub").mkdir()
    (root / "file").write_text("outer")

    assert Roots([root, root / "sub"]).read(f"{root}/sub/../file").text == "outer"


def test_a_root_may_be_a_link(tmp_path: Path, root: Path) -> None:
    (root / "file").write_text("hello")
    (tmp_path / "link").symlink_to(root)
    roots = Roots([tmp_path / "link"])

    assert roots.read("file").text == "hello"
    assert roots.read(str(tmp_path / "link" / "file")).text == "hello"
    assert roots.read(str(root / "file")).text == "hello"


def test_a_root_that_begins_as_another_folder_does_is_not_that_folder(tmp_path: Path, root: Path) -> None:
    (tmp_path / "root-2").mkdir()
    (tmp_path / "root-2" / "file").write_text("canary")

    with pytest.raises(PathRefused):
        Roots([root]).read(str(tmp_path / "root-2" / "file"))


def test_a_root_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(FileUnavailable, match=r"the root folder .* No such file"):
        Roots([tmp_path / "none"]).read("file")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"plain", "plain"),
        ("grün".encode(), "grün"),
        (b"\xef\xbb\xbfwith a mark", "with a mark"),
        ("weit".encode("utf-16"), "weit"),
        (b"\xfe\xff\x00h\x00i", "hi"),
        (b"half \xff\xfe bad", "half �� bad"),
        (b"a\r\nb", "a\r\nb"),
        (b"", ""),
    ],
)
def test_any_bytes_are_read_as_text(root: Path, content: bytes, text: str) -> None:
    (root / "file").write_bytes(content)

    read = Roots([root]).read("file")

    assert (read.text, read.is_binary, read.is_cut) == (text, False, False)


def test_a_file_with_nul_bytes_is_said_to_be_binary(root: Path) -> None:
    (root / "file").write_bytes(b"\x7fELF\0\0")

    assert Roots([root]).read("file").is_binary


def test_a_long_file_is_cut_between_characters(root: Path) -> None:
    (root / "file").write_text("ü" * 10)

    read = Roots([root]).read("file", max_bytes=5)

    assert (read.text, read.is_cut, read.size) == ("üü", True, 20)


def test_links_inside_the_roots_are_read(root: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub" / "file").write_text("hello")
    (root / "folder").symlink_to("sub")
    (root / "name").symlink_to("folder/../sub/file")
    (root / "absolute").symlink_to(root / "folder" / "file")

    roots = Roots([root])

    assert [roots.read(path).text for path in ("folder/file", "name", "absolute")] == ["hello"] * 3
    assert roots.list("folder").entries == (FolderEntry(name="file", kind="file", size=5),)


def test_links_out_of_the_roots_are_refused(root: Path, outside: Path) -> None:
    (root / "absolute").symlink_to(outside)
    (root / "relative").symlink_to("../outside/secret")
    (root / "sub").mkdir()
    (root / "sub" / "chain").symlink_to("../relative")

    for path in ("absolute/secret", "relative", "sub/chain"):
        with pytest.raises(PathRefused, match="out of the roots"):
            Roots([root]).read(path)
    with pytest.raises(PathRefused, match="out of the roots"):
        Roots([root]).list("absolute")


def test_links_in_a_circle_end(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")

    with pytest.raises(PathRefused, match="more than 40 links"):
        Roots([root]).read("a")


def test_special_files_are_refused_without_waiting(root: Path) -> None:
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        old = Path.cwd()
        os.chdir(root)  # the name of a socket is short
        try:
            listener.bind("socket")
        finally:
            os.chdir(old)
        for path in ("fifo", "socket"):
            with pytest.raises(PathRefused, match="not a regular file"):
                Roots([root]).read(path)
        with pytest.raises(PathRefused, match="not a regular file"):
            Roots([root]).write("fifo", "text")


@pytest.mark.parametrize(
    "path", ["/dev/null", "/dev/zero", "/proc/self/environ", "/proc/self/root/etc/passwd"]
)
def test_devices_and_the_view_of_the_kernel_are_refused_even_when_all_is_a_root(path: str) -> None:
    with pytest.raises(PathRefused):
        Roots(["/"]).read(path)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "empty"),
        ("a\0b", "NUL"),
        ("a" * 256, "255 bytes"),
        ("a/" * 2049, "4096 bytes"),
        ("\ud800", "surrogate"),
    ],
)
def test_impossible_names_are_refused(root: Path, path: str, reason: str) -> None:
    for act in (Roots([root]).read, Roots([root]).list, lambda name: Roots([root]).write(name, "")):
        with pytest.raises(PathRefused, match=reason):
            act(path)


def test_folders_too_deep_are_refused_and_leave_nothing_open(root: Path) -> None:
    before = len(list(Path("/dev/fd").iterdir()))

    with pytest.raises(PathRefused, match="folders deep"):
        Roots([root]).write("a/" * 101 + "file", "text")

    assert len(list(Path("/dev/fd").iterdir())) == before


@pytest.mark.parametrize(
    "path", [".git/config", "sub/.GIT/x", ".weft/weft.db", ".g‌it/config", "to-git/config"]
)
def test_closed_folders_are_neither_read_nor_written(root: Path, path: str) -> None:
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("canary")
    (root / "to-git").symlink_to(".git")
    (root / "sub").mkdir()
    (root / "sub" / "back").symlink_to("../.git/config")

    with pytest.raises(PathRefused):
        Roots([root]).read(path)
    with pytest.raises(PathRefused):
        Roots([root]).write(path, "")
    with pytest.raises(PathRefused):
        Roots([root]).read("sub/back")
    assert sorted(entry.name for entry in root.iterdir()) == [".git", "sub", "to-git"]


@pytest.mark.parametrize("path", ["weft.toml", "sub/.mcp.json", "WEFT.TOML", "servers.json"])
def test_files_that_decide_what_may_run_are_read_but_not_written(root: Path, path: str) -> None:
    (root / "sub").mkdir()
    (root / path).write_text("kept")
    roots = Roots([root], kept_files=["servers.json"])

    with pytest.raises(PathRefused, match="decides what may run"):
        roots.write(path, "mine")

    assert roots.read(path).text == "kept"


def test_a_folder_is_listed_by_name_with_kinds_and_sizes(root: Path) -> None:
    (root / "b").mkdir()
    (root / "a.txt").write_text("four")
    (root / "c").symlink_to("a.txt")
    os.mkfifo(root / "d")

    listing = Roots([root]).list()

    assert [(entry.name, entry.kind, entry.size) for entry in listing.entries] == [
        ("a.txt", "file", 4),
        ("b", "folder", None),
        ("c", "link", None),
        ("d", "other", None),
    ]


def test_a_long_listing_says_how_much_is_left_off(root: Path) -> None:
    for number in range(30):
        (root / f"{number:02}").touch()

    listing = Roots([root]).list(max_entries=10)

    assert [entry.name for entry in listing.entries] == [f"{number:02}" for number in range(10)]
    assert listing.left_off == 20


def test_names_that_are_no_text_are_listed_all_the_same(root: Path) -> None:
    os.close(os.open(os.fsencode(root) + b"/\xff", os.O_CREAT))

    assert Roots([root]).list().entries[0].name == "�"


@pytest.mark.parametrize("path", ["none", "file/below", "none/below"])
def test_what_is_not_there_is_said_so(root: Path, path: str) -> None:
    (root / "file").touch()

    with pytest.raises(FileUnavailable, match=r"no such file|not a folder"):
        Roots([root]).read(path)
    with pytest.raises(FileUnavailable):
        Roots([root]).list(path)
    with pytest.raises(FileUnavailable, match="is a folder"):
        Roots([root]).read(".")
    with pytest.raises(FileUnavailable, match="not a folder"):
        Roots([root]).list("file")


def test_a_file_is_written_with_the_folders_on_its_way(root: Path) -> None:
    assert Roots([root]).write("a/b/c.txt", "grün") == 5

    assert (root / "a" / "b" / "c.txt").read_text() == "grün"
    assert [entry.name for entry in (root / "a" / "b").iterdir()] == ["c.txt"]


def test_a_file_that_is_replaced_keeps_its_mode(root: Path) -> None:
    (root / "run.sh").write_text("old")
    (root / "run.sh").chmod(0o750)

    Roots([root]).write("run.sh", "new")

    assert (root / "run.sh").read_text() == "new"
    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o750


def test_a_file_with_another_name_elsewhere_is_replaced_only_here(root: Path, outside: Path) -> None:
    (root / "name").hardlink_to(outside / "secret")

    Roots([root]).write("name", "new")

    assert (outside / "secret").read_text() == "canary"


def test_nothing_is_written_through_a_link(root: Path, outside: Path) -> None:
    (root / "file").symlink_to(outside / "secret")
    (root / "dangling").symlink_to(outside / "made")
    (root / "folder").symlink_to(outside)
    (root / "inner").mkdir()
    (root / "to-inner").symlink_to("inner")

    for path in ("file", "dangling", "folder/made", "folder/x/y", "to-inner/file"):
        with pytest.raises(PathRefused, match="written through links"):
            Roots([root]).write(path, "gone")

    assert (outside / "secret").read_text() == "canary"
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]


@pytest.mark.parametrize("path", [".", "sub", "sub/", "new/", "sub/.."])
def test_a_folder_is_no_place_for_text(root: Path, path: str) -> None:
    (root / "sub").mkdir()

    with pytest.raises(FileUnavailable, match="it is a folder"):
        Roots([root]).write(path, "text")


def test_a_read_only_file_stays(root: Path) -> None:
    (root / "file").write_text("old")
    (root / "file").chmod(0o444)

    with pytest.raises(FileUnavailable, match="read-only"):
        Roots([root]).write("file", "new")


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "file").write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileUnavailable, match="no space left"):
        Roots([root]).write("file", "new")

    assert [(path.name, path.read_text()) for path in root.iterdir()] == [("file", "old")]


def test_texts_that_cannot_be_written_are_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileUnavailable, match="surrogate"):
        Roots([root]).write("file", "\ud800")
    monkeypatch.setattr(module, "MAX_WRITE_BYTES", 3)
    with pytest.raises(FileUnavailable, match="the limit is 3"):
        Roots([root]).write("file", "four")

    assert list(root.iterdir()) == []


def test_there_must_be_a_root() -> None:
    with pytest.raises(ValueError, match="at least one root"):
        Roots([])


@pytest.mark.parametrize(
    "path",
    ["mytools.py", "MyTools.PY", "a/../mytools.py", "mytools/__init__.py", "mytools.abi3.so",
     "src/mytools.py", "shop/__init__.py", "shop.py", "shop/prices.py", "shop/prices/__init__.py"],
)  # fmt: skip
def test_modules_of_tools_are_not_written(tmp_path: Path, path: str) -> None:
    roots = Roots([tmp_path], kept_modules=["mytools", "shop.prices"])

    with pytest.raises(PathRefused, match="decides what may run"):
        roots.write(path, "import os")
    with pytest.raises(PathRefused, match="decides what may run"):
        roots.write(f"{tmp_path}/{path}", "import os")


def test_other_files_beside_modules_of_tools_are_written(tmp_path: Path) -> None:
    roots = Roots([tmp_path], kept_modules=["mytools", "shop.prices"])

    for path in (
        "mytools2.py",
        "shop/other.py",
        "prices.py",
        "mytools/data.json",
        "my/tools.py",
        "__init__.py",
    ):
        assert roots.write(path, "x") == 1


def test_a_root_inside_the_package_of_a_module_does_not_open_it(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    roots = Roots([tmp_path / "shop"], kept_modules=["shop.prices"])

    with pytest.raises(PathRefused, match="decides what may run"):
        roots.write("prices.py", "import os")
