"""Fetches an embedded model and shows how far it is."""

import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.invoke import ignore_stderr_errors, say
from weft.errors import TransientError

if TYPE_CHECKING:
    from weft.llm.local.catalogue import Entry

_LINE_SECONDS = 10.0
"""How often a line is said where there is no terminal."""


class Stopped(TransientError):
    """A model was being fetched, and is not needed any more."""

    code = "model-fetch-stopped"


def fetch_model(entry: "Entry", stop: threading.Event | None = None) -> Path:
    """The model's file. What is fetched and how large it is, is said before; setting `stop` ends it."""
    from weft.llm.local.catalogue import file_of, is_present, megabytes
    from weft.llm.local.download import is_whole

    if is_whole(entry):
        return file_of(entry)
    if is_present(entry):
        say(f"{file_of(entry)} is damaged and is fetched again")
    say(f"fetching {entry.title} ({megabytes(entry.fetch_size)}, {entry.license}) into {file_of(entry)}")
    stop = stop or threading.Event()
    return _with_bar(entry, stop) if sys.stderr.isatty() else _with_lines(entry, stop)


def _check(stop: threading.Event) -> None:
    if stop.is_set():
        raise Stopped("the model is not fetched to its end; what is here is kept")


def _with_bar(entry: "Entry", stop: threading.Event) -> Path:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from weft.llm.local.download import pull

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=4) as progress:
        task = progress.add_task(entry.name, total=entry.fetch_size)

        def tell(done: int, doing: str) -> None:
            _check(stop)
            progress.update(task, completed=done, description=doing)

        return pull(entry, on_progress=tell)


def _with_lines(entry: "Entry", stop: threading.Event) -> Path:
    from weft.llm.local.catalogue import megabytes
    from weft.llm.local.download import pull

    said = ("", time.monotonic())

    def tell(done: int, doing: str) -> None:
        nonlocal said
        _check(stop)
        is_new = doing != said[0] and not doing.startswith("fetching")
        if is_new or time.monotonic() - said[1] >= _LINE_SECONDS:
            said = (doing, time.monotonic())
            with ignore_stderr_errors():
                say(f"{megabytes(done)} of {megabytes(entry.fetch_size)}: {doing}")

    return pull(entry, on_progress=tell)
