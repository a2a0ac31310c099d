"""The walk: rules outside of git, links, and what is never looked into."""

import os
from pathlib import Path

import pytest

from weft.memory.files.walk import Reader, Walk, stat_below


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def walked(root: Path, *extra: str) -> list[str]:
    return sorted(found.path for found in Walk(root, extra).all())


def open_descriptors() -> int:
    """How many this process has, where the system tells."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def test_gitignore_files_count_without_a_repository(tmp_path: Path) -> None:
    write(
        tmp_path, _dot_gitignore="*.log\n/out/\n", a_dot_log="", a_dot_py="", out__b_dot_py="", sub__out__c=""
    )

    assert walked(tmp_path) == [".gitignore", "a.py", "sub/out/c"]


def test_a_weftignore_has_the_last_word_over_the_gitignore_beside_it(tmp_path: Path) -> None:
    write(tmp_path, _dot_gitignore="*.log\n", _dot_weftignore="!keep.log\ndata/\n", keep_dot_log="")
    write(tmp_path, other_dot_log="", data__big="")

    assert walked(tmp_path) == [".gitignore", ".weftignore", "keep.log"]


def test_extra_patterns_are_stronger_than_files(tmp_path: Path) -> None:
    write(tmp_path, _dot_gitignore="!*.md\n", a_dot_md="", b_dot_py="")

    assert walked(tmp_path, "*.md") == [".gitignore", "b.py"]


def test_git_and_weft_folders_are_never_looked_into(tmp_path: Path) -> None:
    write(tmp_path, sub___dot_git__config="secret", _dot_weft__weft_dot_db="", a="")

    assert walked(tmp_path) == ["a"]


def test_rules_above_a_root_inside_a_repository_count(tmp_path: Path) -> None:
    write(tmp_path, _dot_git__HEAD="", _dot_gitignore="*.log\n/sub/out\n", sub__a_dot_log="", sub__out__b="")
    write(tmp_path, sub__c="", sub__deep__out__d="")

    assert walked(tmp_path / "sub") == ["c", "deep/out/d"]


def test_a_repository_inside_another_has_its_own_rules(tmp_path: Path) -> None:
    write(
        tmp_path, _dot_git__HEAD="", _dot_gitignore="*.log\n", inner___dot_git__HEAD="", inner__a_dot_log=""
    )
    write(tmp_path, b_dot_log="")

    assert walked(tmp_path) == [".gitignore", "inner/a.log"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write(outside, hidden="s")
    root = tmp_path / "root"
    write(root, a="")
    (root / "file").symlink_to(outside / "hidden")
    (root / "folder").symlink_to(outside)

    assert walked(root) == ["a"]
    assert [*Walk(root).below("folder/hidden")] == []


@pytest.mark.parametrize(
    "path", ["link/hidden", "file", "../outside/hidden", "a/../../outside/hidden", "pipe", ""]
)
def test_only_ordinary_files_below_the_root_are_opened(tmp_path: Path, path: str) -> None:
    outside = tmp_path / "outside"
    write(outside, hidden="s")
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "link").symlink_to(outside)
    (root / "file").symlink_to(outside / "hidden")
    os.mkfifo(root / "pipe")

    with pytest.raises(OSError):  # noqa: PT011 - which one depends on the path
        stat_below(root, path)
    with Reader(root) as reader, pytest.raises(OSError):  # noqa: PT011 - as above
        reader.read(path, 100)


def test_a_folder_with_the_name_of_a_file_of_rules_says_nothing(tmp_path: Path) -> None:
    write(tmp_path, sub___dot_gitignore__b="", sub___dot_weftignore__c="", _dot_gitignore__d="", a="")
    write(tmp_path, repository___dot_git__HEAD="", repository___dot_gitignore__e="")
    before = open_descriptors()

    files = walked(tmp_path)

    assert {"a", "sub/.gitignore/b", "sub/.weftignore/c", ".gitignore/d"} <= set(files)
    assert "repository/.gitignore/e" in files
    assert open_descriptors() == before
