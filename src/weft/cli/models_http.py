"""Listens for the clients of `weft models serve` until a signal comes."""

import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager
from signal import Signals

import click
import uvicorn

from weft.cli.saying import say
from weft.cli.stopping import Stopping
from weft.llm.local.embeddings import EmbeddingModel
from weft.llm.local.models import EmbeddedModel
from weft.llm.local.serve import LOOPBACK, model_app

_GRACE_SECONDS = 2


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave the signals alone: they are the command's."""
        yield


async def answer_clients(
    chat: EmbeddedModel | None, embedding: EmbeddingModel | None, listening: socket.socket, key: str | None
) -> None:
    """Print the base URL, then answer until SIGINT or SIGTERM."""
    host, port = listening.getsockname()[:2]
    app = model_app(chat, embedding, key=key, hosts=(*LOOPBACK, host))
    server = _Server(
        uvicorn.Config(
            app, lifespan="off", log_level="warning", timeout_graceful_shutdown=_GRACE_SECONDS, ws="none"
        )
    )

    async def stop(received: Signals) -> None:
        server.should_exit = True

    stopping = Stopping()
    with stopping.on_signals():
        click.echo(f"http://{f'[{host}]' if ':' in host else host}:{port}/v1")
        sys.stdout.flush()
        served = [model.id for model in (chat, embedding) if model is not None]
        names = " and ".join(f"{name} (as model '{name.partition(':')[2]}')" for name in served)
        say(f"serving {names}; Ctrl-C stops")
        await stopping.or_stop(server.serve(sockets=[listening]), stop)
