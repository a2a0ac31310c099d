"""Listens for the clients of `weft models serve` until a signal comes."""

import socket
import sys
from signal import Signals

import click

from weft.cli.saying import say
from weft.cli.stopping import Stopping
from weft.llm.local.embeddings import EmbeddingModel
from weft.llm.local.listening import server_of
from weft.llm.local.models import EmbeddedModel
from weft.llm.local.serve import LOOPBACK, model_app


async def answer_clients(
    chat: EmbeddedModel | None, embedding: EmbeddingModel | None, listening: socket.socket, key: str | None
) -> None:
    """Print the base URL, then answer until SIGINT or SIGTERM."""
    host, port = listening.getsockname()[:2]
    server = server_of(model_app(chat, embedding, key=key, hosts=(*LOOPBACK, host)))

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
