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
    "--no-http", "is_without_http", is_flag=True, help="Do not serve HTTP. Required until weft serves HTTP."
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
    """Run flows and schedules of the store until stopped, as a worker.

    Runs every flow that is started, fires schedules, and takes over tasks of workers that died. Several
    workers may serve one store; each due time of a schedule makes one run. SIGTERM and Ctrl-C wait up to ten
    seconds for running tasks, then release the unfinished ones; a second signal exits at once.

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
    stopping = ShutdownSignals(app.store.leave)
    with stopping.on_signals():
        echo_status(f"serving {where}; press Ctrl-C to stop")
        await stopping.run_until_stopped(app.serve(), stop)
    if is_json:
        print_json({"served": where})
