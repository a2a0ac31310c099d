"""Models are fetched from a folder of small packages: with the real pip where it matters what that does."""

import fcntl
import multiprocessing
import os
import shutil
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from tests.model_packages import PIECES, make_packages, pip_settings, pip_stand_in
from weft.llm.errors import ModelError
from weft.llm.local import catalogue as catalogue_module
from weft.llm.local.catalogue import (
    CacheUnusable,
    Entry,
    FetchFailed,
    NoRoom,
    NoSuchEmbeddedModel,
    WrongContents,
    catalogue,
    file_of,
    find_entry,
    is_present,
    models_folder,
    require_unchanged,
    sha256_of,
    work_path,
)
from weft.llm.local.download import _bytes_in, pull, remove

real_pip = pytest.mark.parametrize("pip", ["real"], indirect=True)
"""For tests of what pip itself does; the others have a stand-in, for pip takes most of a second each time."""


@pytest.fixture
def pip(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace pip by a stand-in, unless the test asks for the real one."""
    if getattr(request, "param", None) != "real":
        python = pip_stand_in(tmp_path)
        monkeypatch.setattr("weft.llm.local.download._python_with_pip", lambda folder: python)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pip: None) -> Path:
    for name, value in pip_settings(tmp_path / "index").items():
        monkeypatch.setenv(name, value)
    return tmp_path / "index"


@pytest.fixture
def entry(index: Path) -> Entry:
    return make_packages(index)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "models"


@real_pip
def test_the_pieces_are_put_together_and_nothing_else_is_left(entry: Entry, folder: Path) -> None:
    seen: list[tuple[int, str]] = []

    path = pull(entry, folder, lambda done, doing: seen.append((done, doing)))

    assert path.read_bytes() == b"".join(PIECES)
    assert {file.name for file in folder.iterdir()} == {"tiny.gguf", "tiny.lock", "tiny.checked"}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (entry.fetch_size, "verifying the file")


@real_pip
def test_a_pull_runs_nothing_of_the_working_folder(
    entry: Entry, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    for module in ("pip", "json", "ssl", "venv"):
        (stranger / f"{module}.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')")
    monkeypatch.chdir(stranger)

    assert pull(entry, folder).read_bytes() == b"".join(PIECES)
    assert not (tmp_path / "sprung").exists()


def test_what_is_here_is_not_fetched_again(entry: Entry, folder: Path, index: Path) -> None:
    pull(entry, folder)
    shutil.rmtree(index)

    assert is_present(entry, folder)
    assert pull(entry, folder).is_file()


def test_weights_that_were_changed_after_the_pull_are_not_used(
    entry: Entry, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = pull(entry, folder)
    hashed: list[Path] = []

    def counted(path: Path) -> str:
        hashed.append(path)
        return sha256_of(path)

    monkeypatch.setattr(catalogue_module, "sha256_of", counted)
    require_unchanged(entry, folder)
    assert hashed == [], "what was checked by the pull is not hashed at each start"
    times = file.stat()
    content = bytearray(file.read_bytes())
    content[0] ^= 1

    file.write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    with pytest.raises(ModelError, match="was changed after the download"):
        require_unchanged(entry, folder)
    content[0] ^= 1
    file.write_bytes(content)
    require_unchanged(entry, folder)
    require_unchanged(entry, folder)
    assert len(hashed) == 2, "once for each change"


def test_a_damaged_model_is_fetched_again(entry: Entry, folder: Path) -> None:
    with pull(entry, folder).open("r+b") as file:
        file.seek(5)
        file.write(b"XXXX")

    assert pull(entry, folder).read_bytes() == b"".join(PIECES)


def test_a_cache_that_cannot_be_used_is_named(entry: Entry, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(CacheUnusable, match=r"file/models: Not a directory; set WEFT_CACHE"):
        pull(entry, tmp_path / "file" / "models")


@real_pip
def test_what_a_killed_pull_has_begun_to_fetch_is_waited_for(
    entry: Entry, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip goes on when the pull is killed; it has the lock until it ends."""
    begun, go_on = tmp_path / "begun", tmp_path / "go-on"
    os.mkfifo(begun)
    os.mkfifo(go_on)
    pip = tmp_path / "python"
    pip.write_text(f'#!/bin/sh\necho yes > {begun}\nread word < {go_on}\nexec {sys.executable} "$@"\n')
    pip.chmod(0o755)
    monkeypatch.setattr("weft.llm.local.download._python_with_pip", lambda folder: str(pip))
    pulling = multiprocessing.get_context("fork").Process(target=pull, args=(entry, folder))
    pulling.start()
    assert begun.read_text() == "yes\n"

    pulling.kill()
    pulling.join()

    with (folder / f"{entry.name}.lock").open("wb") as lock:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        go_on.write_text("now\n")
        fcntl.flock(lock, fcntl.LOCK_EX)
    assert (folder / f"{entry.name}.wheels" / entry.wheels[0].file).is_file()


@real_pip
def test_a_pull_that_failed_goes_on_where_it_was(entry: Entry, folder: Path, index: Path) -> None:
    last = index / entry.wheels[2].file
    last.rename(index / "hidden")
    with pytest.raises(FetchFailed, match=r"weft-test-model-part3==1.0 could not be downloaded.*kept"):
        pull(entry, folder)
    for wheel in entry.wheels[:2]:
        (index / wheel.file).unlink()  # they cannot be fetched once more
    (index / "hidden").rename(last)

    assert pull(entry, folder).read_bytes() == b"".join(PIECES)


def test_a_package_with_another_hash_is_refused_and_deleted(entry: Entry, folder: Path, index: Path) -> None:
    changed = index / entry.wheels[1].file
    changed.write_bytes(changed.read_bytes() + b"more")

    with pytest.raises(WrongContents, match=r"part2.*has the wrong contents.*deleted"):
        pull(entry, folder)

    assert not list(folder.rglob(changed.name))
    assert not is_present(entry, folder)


def test_a_whole_with_another_hash_is_refused_and_deleted(entry: Entry, folder: Path) -> None:
    wrong = msgspec.structs.replace(entry, sha256="0" * 64)

    with pytest.raises(WrongContents, match=r"assembled file.*deleted"):
        pull(wrong, folder)

    assert not list(folder.glob("tiny.gguf"))
    assert not list(folder.glob("tiny.partial"))
    assert pull(entry, folder).read_bytes() == b"".join(PIECES)


def test_a_piece_of_another_size_is_refused(entry: Entry, folder: Path) -> None:
    member = msgspec.structs.replace(entry.wheels[0].members[0], size=10)
    first = msgspec.structs.replace(entry.wheels[0], members=(member,))
    wrong = msgspec.structs.replace(entry, wheels=(first, *entry.wheels[1:]))

    with pytest.raises(WrongContents, match="10 bytes"):
        pull(wrong, folder)


@real_pip
def test_without_a_network_the_error_says_what_to_do(entry: Entry, folder: Path, index: Path) -> None:
    shutil.rmtree(index)

    with pytest.raises(FetchFailed, match="check the network"):
        pull(entry, folder)


def test_a_full_disk_is_noticed_before_anything_is_fetched(
    entry: Entry, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(Path.cwd())
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage._replace(free=1_000))

    with pytest.raises(NoRoom, match="WEFT_CACHE"):
        pull(entry, folder)


def test_two_pulls_at_the_same_time_make_one_file(entry: Entry, folder: Path) -> None:
    found: list[bytes] = []
    doing: list[str] = []

    def run() -> None:
        found.append(pull(entry, folder, lambda done, what: doing.append(what)).read_bytes())

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [b"".join(PIECES)] * 2
    assert doing.count("verifying the file") == 1


def test_removing_frees_what_is_there(entry: Entry, folder: Path) -> None:
    pull(entry, folder)

    assert remove(entry, folder) == entry.size
    assert remove(entry, folder) == 0
    assert not is_present(entry, folder)


def test_what_cannot_be_removed_is_named(entry: Entry, folder: Path, tmp_path: Path) -> None:
    file_of(entry, folder).mkdir(parents=True)
    with pytest.raises(CacheUnusable, match=r"cannot be stored.*tiny.gguf: Is a directory"):
        remove(entry, folder)
    (tmp_path / "file").touch()
    with pytest.raises(CacheUnusable, match="Not a directory"):
        remove(entry, tmp_path / "file" / "models")
    assert remove(entry, tmp_path / "missing") == 0


def test_a_model_is_not_removed_while_it_is_pulled(entry: Entry, folder: Path) -> None:
    folder.mkdir(parents=True)
    work_path(entry, folder, "partial").write_bytes(b"a piece")
    with (folder / "tiny.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as a pull holds it
        with pytest.raises(CacheUnusable, match="tiny is being downloaded"):
            remove(entry, folder)

    assert remove(entry, folder) == len(b"a piece")


def test_names_and_aliases_of_the_catalogue() -> None:
    assert find_entry("qwen") is find_entry("qwen2.5-coder-1.5b")
    assert [entry.name for entry in catalogue()] == [
        "qwen2.5-coder-1.5b",
        "smollm2-135m",
        "all-minilm-l6-v2",
    ]
    with pytest.raises(NoSuchEmbeddedModel, match="smollm2"):
        find_entry("llama")


def test_the_pieces_of_every_model_of_the_catalogue_make_its_size() -> None:
    for entry in catalogue():
        if entry.form == "gguf":
            assert sum(wheel.members_size for wheel in entry.wheels) == entry.size


def test_where_models_are_kept() -> None:
    assert models_folder({"WEFT_CACHE": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a/models")
    assert models_folder({"XDG_CACHE_HOME": "/b"}) == Path("/b/weft/models")
    assert models_folder({}) == Path.home() / ".cache" / "weft" / "models"


def test_folders_that_vanish_while_they_are_counted_count_as_nothing(tmp_path: Path) -> None:
    """pip removes its own folders at any time; Path.rglob raises for one that is gone."""
    for number in range(200):
        (tmp_path / f"{number}" / "below").mkdir(parents=True)

    def remove_all() -> None:
        for one in tmp_path.iterdir():
            shutil.rmtree(one)

    removing = threading.Thread(target=remove_all)
    removing.start()
    while removing.is_alive():
        assert _bytes_in(tmp_path) == 0
    removing.join()
