"""`weft serve`."""

import signal
from typing import TYPE_CHECKING

import click

from weft.cli.flow.run import (
    allow_many_files,
    concurrency_option,
    known_executors,
    limit_option,
    parse_limits,
)
from weft.cli.invoke import tracing, with_app
from weft.cli.options import store_options

if TYPE_CHECKING:
    from weft.app.app import App


@click.command()
@click.option(
    "--no-http",
    "is_without_http",
    is_flag=True,
    help="Do not serve HTTP. Required: weft does not serve HTTP yet.",
)
@concurrency_option
@limit_option
@store_options
def serve(
    is_without_http: bool,
    concurrency: int,
    per_executor: tuple[str, ...],
    db: str | None,
    user: str | None,
    is_json: bool,
) -> None:
    """Run a worker until stopped: run started flows, and fire schedules.

    A flow is started by `weft flow run` or `weft run`, by a schedule, or from Python. A flow that was only
    stored (`weft flow submit`) is not run. The worker also takes over tasks of workers that died, and resumes
    suspended runs when their questions are answered. Several workers can share a store; each due time of a
    schedule still fires only once.

    After SIGTERM or Ctrl-C the worker waits up to ten seconds for running tasks, then releases the others. A
    second signal exits at once.

    \b
    Example:
      weft serve --no-http --concurrency 8 --limit command=2
    """
    if not is_without_http:
        raise click.UsageError("weft does not serve HTTP yet: add --no-http to run flows and schedules only")
    executors = known_executors(db, user)
    allow_many_files()
    with tracing():
        with_app(
            db,
            user,
            lambda app: _serve(app, is_json=is_json),
            must_exist=False,
            limits=parse_limits(concurrency, per_executor, executors, db, user),
            executors=executors,
        )


async def _serve(app: "App", *, is_json: bool) -> None:
    from weft.cli.display.output import print_json
    from weft.cli.invoke import echo_status
    from weft.cli.signals import ShutdownSignals
    from weft.config.settings import shown_location

    async def stop(received: signal.Signals) -> None:
        await app.stop()

    where = shown_location(app.settings.db)
    stopping = ShutdownSignals(app.store.stop_waiting)
    with stopping.on_signals():
        echo_status(f"serving {where}; press Ctrl-C to stop")
        await stopping.run_until_stopped(app.serve(), stop)
    if is_json:
        print_json({"served": where})
