"""Download an embedded model and show the progress."""

import sys
import threading
import time
from pathlib import Path

from weft.app.models import catalogue, download
from weft.cli.invoke import echo_status, ignore_stderr_errors
from weft.errors import TransientError

_LINE_SECONDS = 10.0
"""Seconds between two progress lines without a terminal."""


class Stopped(TransientError):
    """The download of a model was stopped because the model is no longer needed."""

    code = "model-fetch-stopped"


def fetch_model(entry: catalogue.Entry, stop: threading.Event | None = None) -> Path:
    """Return the path of the model's file, downloading it first if needed.

    Setting `stop` makes the download raise Stopped.
    """
    if download.is_whole(entry):
        return catalogue.file_of(entry)
    if catalogue.is_present(entry):
        echo_status(f"{catalogue.file_of(entry)} is damaged; fetching it again")
    size = catalogue.megabytes(entry.fetch_size)
    echo_status(f"fetching {entry.title} ({size}, {entry.license}) into {catalogue.file_of(entry)}")
    stop = stop or threading.Event()
    return _pull_with_bar(entry, stop) if sys.stderr.isatty() else _pull_with_lines(entry, stop)


def _raise_if_stopped(stop: threading.Event) -> None:
    if stop.is_set():
        raise Stopped("the download of the model was stopped; the part that was downloaded is kept")


def _pull_with_bar(entry: catalogue.Entry, stop: threading.Event) -> Path:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=4) as progress:
        task = progress.add_task(entry.name, total=entry.fetch_size)

        def report(done: int, doing: str) -> None:
            _raise_if_stopped(stop)
            progress.update(task, completed=done, description=doing)

        return download.pull(entry, on_progress=report)


def _pull_with_lines(entry: catalogue.Entry, stop: threading.Event) -> Path:
    last = ("", time.monotonic())

    def report(done: int, doing: str) -> None:
        nonlocal last
        _raise_if_stopped(stop)
        is_new = doing != last[0] and not doing.startswith("fetching")
        if is_new or time.monotonic() - last[1] >= _LINE_SECONDS:
            last = (doing, time.monotonic())
            with ignore_stderr_errors():
                echo_status(
                    f"{catalogue.megabytes(done)} of {catalogue.megabytes(entry.fetch_size)}: {doing}"
                )

    return download.pull(entry, on_progress=report)
