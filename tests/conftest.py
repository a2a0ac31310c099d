"""Fixtures that several kinds of tests share."""

import functools
import gc
import importlib
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.embedded_model import loaded
from tests.model_server import ModelServer
from tests.model_server import model_server as served_models
from tests.postgresql_server import fresh_schema, postgresql_server
from weft.app.wiring import open_store
from weft.clock import ManualClock
from weft.config.settings import Settings
from weft.llm.local.models import EmbeddedModel
from weft.secrets.registry import forget_all
from weft.store.protocol import TaskStore

# The suite tries the same examples every time, so that a change that lands is one that was tested, and not
# many, because they found nothing the last time; `scripts/test-slow` looks for new ones, eight times as many.
# None of them has a deadline: how long an example takes depends on what else the machine does.
hypothesis.settings.register_profile("same", derandomize=True, database=None, max_examples=25, deadline=None)
hypothesis.settings.register_profile("new", print_blob=True, max_examples=200, deadline=None)
hypothesis.settings.load_profile("same")

gc.disable()  # until all is collected: nothing of it becomes garbage

_SERVER = pytest.StashKey[str | None]()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that runs the tests in the background turns Ctrl-C off, also for the programs that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Start the server of all workers of a session that has several, and tell each of them where it is."""
    config: pytest.Config = node.config
    if _SERVER not in config.stash:
        running = ExitStack()
        config.add_cleanup(running.close)
        try:
            config.stash[_SERVER] = running.enter_context(postgresql_server())
        except pytest.skip.Exception:
            config.stash[_SERVER] = None  # there is none here, and the tests that need one will say so
    node.workerinput["postgresql"] = config.stash[_SERVER]


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of garbage collections, each of which takes 0.4 s else."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def postgresql(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run a PostgreSQL server for the length of the session; each test has a schema of its own."""
    shared = getattr(request.config, "workerinput", {}).get("postgresql")
    if shared is not None:
        yield shared
        return
    with postgresql_server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty store can be opened: once in SQLite, once in a real PostgreSQL."""
    if request.param == "sqlite":
        return str(tmp_path / "weft.db")
    return fresh_schema(request.getfixturevalue("postgresql"))


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[TaskStore]:
    opened = await open_store(Settings(db=store_url))
    yield opened
    await opened.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    """Run a model provider on the loopback address, with an empty script."""
    with served_models() as server:
        yield server


@pytest.fixture(scope="session")
def smollm2() -> Iterator[EmbeddedModel]:
    """Load the small embedded model once for the whole session."""
    with loaded("smollm2") as model:
        yield model


@pytest.fixture(scope="session", autouse=True)
def _certificates_read_once() -> Iterator[None]:
    """Every client of a model reads the certificates of all authorities, for 30 ms; in tests, one does."""
    transports = importlib.import_module("httpx2._transports.default")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transports, "create_ssl_context", functools.cache(transports.create_ssl_context))
        yield


@pytest.fixture(autouse=True)
def _own_secrets() -> Iterator[None]:
    """Every test has its own secrets: those of another would be found in its texts."""
    yield
    forget_all()
