"""`weft models serve`."""

import os
import socket
from typing import TYPE_CHECKING

import click

from weft.cli.options import TEXT

if TYPE_CHECKING:
    from weft.llm.local.catalogue import Makes


@click.command()
@click.option(
    "--model",
    "models",
    default=["auto"],
    show_default=True,
    multiple=True,
    type=TEXT,
    help="A name, or a path of a GGUF file; twice for one that writes text and one that makes embeddings.",
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
def serve(models: tuple[str, ...], host: str, port: int, api_key_env: str | None) -> None:
    """Serve embedded models over HTTP, in the OpenAI protocol.

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
    asyncio.run(_serve(models, host, port, key))


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise click.UsageError(f"--api-key-env: the variable {variable} is empty or not set")
    return key


async def _serve(names: tuple[str, ...], host: str, port: int, key: str | None) -> None:
    from weft.cli.models_fetch import fetch_model
    from weft.cli.models_http import answer_clients
    from weft.llm.errors import ModelError
    from weft.llm.local.models import EmbeddedModels, settings_from

    try:
        wanted, settings = _by_kind(names), settings_from()
    except ModelError as error:
        raise click.UsageError(error.message) from error
    listening = _listen(host, port)
    models = EmbeddedModels(settings=settings, fetch=fetch_model)
    try:
        chat = await models.find(wanted["text"]) if "text" in wanted else None
        embedding = await models.find_embedding(wanted["embeddings"]) if "embeddings" in wanted else None
        await answer_clients(chat, embedding, listening, key)
    finally:
        await models.close()
        listening.close()


def _by_kind(names: tuple[str, ...]) -> "dict[Makes, str]":
    """The models by what they make, of which there is one each."""
    from weft.llm.local.facts import kind_of

    found: dict[Makes, str] = {}
    for name in names:
        kind = kind_of(name)
        if kind in found:
            raise click.UsageError(
                "--model: one model that writes text and one that makes embeddings can be served, "
                f"and {found[kind]} and {name} do the same"
            )
        found[kind] = name
    return found


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise click.UsageError(f"cannot listen on {host}:{port}: {error.strerror}") from error
