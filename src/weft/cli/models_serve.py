"""`weft models serve`."""

import os
import socket

import click

from weft.cli.options import TEXT


@click.command()
@click.option(
    "--model", default="auto", show_default=True, type=TEXT, help="A name, or a path of a GGUF file."
)
@click.option("--host", default="127.0.0.1", show_default=True, type=TEXT, help="Where to listen.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="0: any that is free."
)
@click.option(
    "--api-key-env",
    metavar="VARIABLE",
    type=TEXT,
    help="The environment variable that holds the key to ask for.",
)
def serve(model: str, host: str, port: int, api_key_env: str | None) -> None:
    """Serve an embedded model over HTTP, in the OpenAI chat protocol.

    The first line of the output is the base URL for clients. SIGTERM and Ctrl-C end it.
    """
    # Imported here: `weft models serve --help` must not pay for it.
    import asyncio
    from importlib.util import find_spec

    from weft.errors import MissingExtra
    from weft.llm.local.serve import LOOPBACK

    key = _key(api_key_env)
    if host not in LOOPBACK and key is None:
        raise click.UsageError(f"--host {host} lets others in: name a key for them with --api-key-env")
    if find_spec("uvicorn") is None or find_spec("starlette") is None:
        raise MissingExtra(extra="local", purpose="serving a model")
    asyncio.run(_serve(model, host, port, key))


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise click.UsageError(f"--api-key-env: the variable {variable} is empty or not set")
    return key


async def _serve(name: str, host: str, port: int, key: str | None) -> None:
    from weft.cli.models_fetch import fetch_model
    from weft.cli.models_http import answer_clients
    from weft.llm.local.models import EmbeddedModels

    listening = _listen(host, port)
    models = EmbeddedModels(fetch=fetch_model)
    try:
        await answer_clients(await models.find(name), listening, key)
    finally:
        await models.close()
        listening.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise click.UsageError(f"cannot listen on {host}:{port}: {error.strerror}") from error
