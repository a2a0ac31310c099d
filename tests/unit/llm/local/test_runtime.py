"""The process that holds a model: what is said of one that does not come up, and what it leaves behind."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tiny_bert import TinyBert
from weft.llm.errors import ModelError
from weft.llm.local.embeddings import make_gguf
from weft.llm.local.runtime import PrivateFolder, Runtime, RuntimeSettings, sweep

SETTINGS = RuntimeSettings(context_window=16, is_embedding=True)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    pieces = TinyBert().pieces()
    (tmp_path / "pieces").write_bytes(b"".join(pieces))
    make_gguf(tmp_path / "pieces", tuple(map(len, pieces)), tmp_path / "tiny.gguf", "tiny")
    return tmp_path / "tiny.gguf"


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder for temporary files whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in which the worker looks for modules first."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    (tmp_path / "modules").mkdir()
    return tmp_path / "modules"


async def test_what_others_print_is_not_taken_for_the_answer(tiny: Path, modules: Path) -> None:
    (modules / "sitecustomize.py").write_text("print('hi', flush=True)")
    runtime = Runtime(tiny, SETTINGS)

    await runtime.start()

    assert len((await runtime.embeddings(["cat"]))["data"]) == 1
    runtime.close()


async def test_a_runtime_that_cannot_be_imported_is_told(tiny: Path, modules: Path) -> None:
    (modules / "xllamacpp.py").write_text("raise ImportError('libgomp.so.1 is missing')")

    with pytest.raises(ModelError, match=r"the runtime cannot be used: ImportError: libgomp.so.1 is missing"):
        await Runtime(tiny, SETTINGS).start()


async def test_a_worker_that_ends_without_a_word_is_told(tiny: Path, modules: Path) -> None:
    (modules / "sitecustomize.py").write_text("import os, sys\nif len(sys.argv) == 2: os._exit(7)")
    (modules / "xllamacpp.py").write_text("import os; os._exit(7)")

    with pytest.raises(ModelError, match=r"its process ended \(exit code 7\)"):
        await Runtime(tiny, SETTINGS).start()


async def test_an_answer_that_cannot_be_read_fails_the_call(tiny: Path, modules: Path) -> None:
    (modules / "xllamacpp.py").write_text("import os, sys; os.write(int(sys.argv[1]), b'hi\\n')")

    with pytest.raises(ModelError, match="cannot be loaded: JSONDecodeError"):
        await Runtime(tiny, SETTINGS).start()


async def test_a_process_that_cannot_be_started_leaves_nothing(
    tiny: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refused)

    with pytest.raises(ModelError, match="cannot be started: Resource temporarily") as caught:
        await Runtime(tiny, SETTINGS).start()
    assert (caught.value.reason, caught.value.is_transient) == ("llm_error", True)
    assert os.listdir(temporary) == []  # noqa: PTH208 - a list, and nothing that waits


def test_folders_of_dead_programs_are_deleted(temporary: Path) -> None:
    program = "import os; from weft.llm.local.runtime import PrivateFolder; PrivateFolder(); os._exit(0)"
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "TMPDIR": str(temporary)})
    mine = PrivateFolder()
    (temporary / "weft-model-new").mkdir()  # between two steps of being made
    assert len(list(temporary.iterdir())) == 3

    sweep()

    assert set(temporary.iterdir()) == {mine.path, temporary / "weft-model-new"}
    mine.remove()
    mine.remove()
    assert set(temporary.iterdir()) == {temporary / "weft-model-new"}
