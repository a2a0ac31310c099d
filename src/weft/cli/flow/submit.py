"""`weft flow submit`."""

from typing import TYPE_CHECKING

import click

from weft.cli.display.output import print_flow
from weft.cli.invoke import echo_status, with_app
from weft.cli.options import read_input, store_options

if TYPE_CHECKING:
    from weft.app.app import App
    from weft.tasks.flow import Flow


@click.command()
@click.argument("file", metavar="FLOW.json|-")
@click.option("--check", "is_check", is_flag=True, help="Only check the flow; store nothing.")
@store_options
def submit(file: str, is_check: bool, db: str | None, user: str | None, is_json: bool) -> None:
    """Check a flow and store it without running it.

    All problems are reported at once, and a flow with problems is not stored. `weft flow run ID` runs a
    stored flow.

    \b
    Examples:
      weft flow submit release.json
      weft flow submit --check release.json
      generate-flow | weft flow submit - --json
    """
    # Imported here: keeps --help fast.
    from weft.app.submission import read_document
    from weft.config.settings import load_settings
    from weft.tasks.parsing.problems import decode

    document = decode(read_input(file), source=file)
    if is_check:
        user_id = load_settings(db=db, user_id=user).user_id
        print_flow(read_document(document, user_id=user_id), is_json=is_json, did="valid:")
        return

    async def store(app: "App") -> "Flow":
        stored = await app.submit(document)
        await _warn_of_unknown_executors(app, stored)
        return stored

    flow = with_app(db, user, store, must_exist=False)
    print_flow(flow, is_json=is_json, did="stored")


async def _warn_of_unknown_executors(app: "App", flow: "Flow") -> None:
    """Warn about executors that this process lacks; another process may have them, so the flow is stored."""
    from weft.app.submission import named_templates
    from weft.executors.builtin import BUILT_IN_IDS
    from weft.executors.registry import UnknownExecutor
    from weft.tasks.record import method_of

    methods = {method_of(task) for task in flow} - BUILT_IN_IDS - {""}
    unknown = {method for method in methods if app.executors.find(method) is None}
    for method in sorted(unknown - (await named_templates(app.store, app.owner, unknown)).keys()):
        try:
            app.executors.get(method)
        except UnknownExecutor as error:
            echo_status(f"warning: {error.message}; its tasks fail unless another worker has this executor")
