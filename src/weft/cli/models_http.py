"""Listens for the clients of `weft models serve` until a signal comes."""

import socket
import sys
from signal import Signals

import click

from weft.cli.saying import say
from weft.cli.stopping import Stopping
from weft.llm.local.listening import server_of
from weft.llm.local.models import EmbeddedModel
from weft.llm.local.serve import LOOPBACK, chat_app


async def answer_clients(model: EmbeddedModel, listening: socket.socket, key: str | None) -> None:
    """Print the base URL, then answer until SIGINT or SIGTERM."""
    host, port = listening.getsockname()[:2]
    app = chat_app(model, key=key, hosts=(*LOOPBACK, host))
    server = server_of(app)

    async def stop(received: Signals) -> None:
        server.should_exit = True

    stopping = Stopping()
    with stopping.on_signals():
        click.echo(f"http://{f'[{host}]' if ':' in host else host}:{port}/v1")
        sys.stdout.flush()
        say(f"serving {model.id} (as model '{model.id.partition(':')[2]}'); Ctrl-C stops")
        await stopping.or_stop(server.serve(sockets=[listening]), stop)
