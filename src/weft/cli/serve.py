"""`weft serve`."""

import signal

import click

from weft.app.app import App
from weft.cli.display.output import print_json
from weft.cli.flow import WorkerOptions, concurrency_option, limit_option
from weft.cli.invoke import echo_status
from weft.cli.signals import ShutdownSignals
from weft.cli.store_access import StoreOptions, store_options
from weft.config.settings import shown_location


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
    is_without_http: bool, concurrency: int, per_executor: tuple[str, ...], store: StoreOptions
) -> None:
    """Run a worker until stopped: run started flows, and fire schedules.

    A flow is started by `weft flow run` or `weft run`, by a schedule, or from Python. A flow that was only
    stored (`weft flow submit`) is not run. The worker also takes over tasks of workers that died, and resumes
    suspended runs when their questions are answered. Several workers can share a store; each due time of a
    schedule still fires only once.

    After SIGTERM or Ctrl-C the worker gives running tasks up to ten seconds to end, then releases those that
    have not ended. A second signal exits at once.

    \b
    Example:
      weft serve --no-http --concurrency 8 --limit command=2
    """
    if not is_without_http:
        raise click.UsageError("weft does not serve HTTP yet: add --no-http to run flows and schedules only")
    worker = WorkerOptions(store, concurrency, per_executor)
    worker.run(lambda app: _serve(app, is_json=store.is_json), must_exist=False)


async def _serve(app: App, *, is_json: bool) -> None:
    async def stop(received: signal.Signals) -> None:
        await app.stop()

    where = shown_location(app.settings.db)
    stopping = ShutdownSignals(app.leave_store)
    with stopping.on_signals():
        echo_status(f"serving {where}; press Ctrl-C to stop")
        await stopping.run_until_stopped(app.serve(), stop)
    if is_json:
        print_json({"served": where})
