"""Bytes of files below a root: all of them, and never those of another place."""

from pathlib import Path

import pytest

from weft.memory.files.walk import Reader


@pytest.mark.parametrize("size", [0, 999, 1000, 1001, 40_000])
def test_a_file_is_read_to_its_end_or_beyond_the_limit(tmp_path: Path, size: int) -> None:
    content = bytes(number % 251 for number in range(size))
    (tmp_path / "file").write_bytes(content)

    with Reader(tmp_path) as reader:
        read, known = reader.read("file", 1000)

    assert (read, known.st_size) == (content[:1001], size)


@pytest.mark.skipif(not Path("/proc/filesystems").is_file(), reason="needs a file that hides its size")
def test_a_file_that_says_it_is_empty_is_read_to_its_end() -> None:
    with Reader(Path("/proc")) as reader:
        read, known = reader.read("filesystems", 1_000_000)

    assert known.st_size == 0
    assert read
    assert read == Path("/proc/filesystems").read_bytes()


def test_files_of_several_folders_are_read_by_turns(tmp_path: Path) -> None:
    paths = ["top", "a/one", "a/two", "a/b/one", "a/three", "top", "c/one"]
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)

    with Reader(tmp_path) as reader:
        assert [reader.read(path, 100)[0].decode() for path in paths] == paths


def test_after_a_folder_that_is_not_there_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_text("1")

    with Reader(tmp_path) as reader:
        for path in ("a/one", "gone/one", "gone/one"):
            if path == "a/one":
                assert reader.read(path, 100)[0] == b"1"
            else:
                with pytest.raises(FileNotFoundError):
                    reader.read(path, 100)
        assert reader.read("a/one", 100)[0] == b"1"


def test_a_folder_that_becomes_a_link_between_two_files_leads_nowhere_else(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder, text in ((root / "a", "ours"), (outside, "hidden")):
        folder.mkdir(parents=True)
        for name in ("one", "two"):
            (folder / name).write_text(text)

    with Reader(root) as reader:
        reader.read("a/one", 100)
        (root / "a").rename(tmp_path / "old")
        (root / "a").symlink_to(outside)
        assert reader.read("a/two", 100)[0] == b"ours"
    with Reader(root) as reader, pytest.raises(NotADirectoryError):
        reader.read("a/two", 100)
