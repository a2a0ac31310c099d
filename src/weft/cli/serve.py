"""`weft serve`."""

import signal
from typing import TYPE_CHECKING

import click

from weft.cli.flow.run import allow_many_files, concurrency_option, known_executors, limit_option, limits_of
from weft.cli.invoke import collecting, with_app
from weft.cli.options import store_options

if TYPE_CHECKING:
    from weft.app.app import App


@click.command()
@click.option(
    "--no-http", "is_without_http", is_flag=True, help="Run flows and schedules only. Needed for now."
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
    """Run every flow that is to be run, fire schedules, and take over what dead processes left.

    Several may serve one store; each due time of a schedule makes one run. SIGTERM and Ctrl-C let running
    tasks end within ten seconds and give back the rest; a second signal leaves at once.
    """
    if not is_without_http:
        raise click.UsageError("weft does not serve HTTP yet; say --no-http to run flows and schedules")
    executors = known_executors(db, user)
    allow_many_files()
    with collecting():
        with_app(
            db,
            user,
            lambda app: _serve(app, is_json=is_json),
            must_exist=False,
            limits=limits_of(concurrency, per_executor, executors, db, user),
            executors=executors,
        )


async def _serve(app: "App", *, is_json: bool) -> None:
    from weft.cli.display.output import print_json
    from weft.cli.invoke import say
    from weft.cli.signals import ShutdownSignals
    from weft.config.settings import shown_location

    async def stop(received: signal.Signals) -> None:
        await app.stop()

    where = shown_location(app.settings.db)
    stopping = ShutdownSignals(app.store.leave)
    with stopping.on_signals():
        say(f"serving {where}; Ctrl-C stops")
        await stopping.run_until_stopped(app.serve(), stop)
    if is_json:
        print_json({"served": where})
