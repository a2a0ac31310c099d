"""The HTTP server that embedded models are behind. Imported where one listens: uvicorn is an extra."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import uvicorn

from weft.llm.local.models import EmbeddedModel
from weft.llm.local.serve import model_app
from weft.secrets.registry import register

if TYPE_CHECKING:
    from starlette.applications import Starlette

GRACE_SECONDS = 2


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave the signals alone: they are the command's."""
        yield


def server_of(app: "Starlette") -> uvicorn.Server:
    """The server of an application; it stops when its `should_exit` is set."""
    return _Server(
        uvicorn.Config(
            app, lifespan="off", log_level="warning", timeout_graceful_shutdown=GRACE_SECONDS, ws="none"
        )
    )


@asynccontextmanager
async def served_on_loopback(model: EmbeddedModel) -> AsyncIterator[tuple[str, str]]:
    """The model for another program, as long as the block: its base URL, and the key that it asks for."""
    key = secrets.token_urlsafe(32)
    register(key, "a key of an embedded model")
    listening = socket.create_server(("127.0.0.1", 0))
    server = server_of(model_app(model, key=key))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1", key
    finally:
        server.should_exit = True
        await asyncio.wait({serving})
        listening.close()
