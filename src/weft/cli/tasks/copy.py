"""`weft tasks copy`."""

from typing import TYPE_CHECKING

import click

from weft.cli.display.output import print_flow
from weft.cli.invoke import with_app
from weft.cli.options import TASK_ID, TEXT, read_bindings, store_options
from weft.ids import TaskId

if TYPE_CHECKING:
    from weft.app.app import App
    from weft.tasks.flow import Flow


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option(
    "--link",
    "linked",
    multiple=True,
    type=TASK_ID,
    metavar="ID",
    help="Link this completed task instead of copying it, so that it keeps its result. May be repeated.",
)
@click.option(
    "--with-dependencies", is_flag=True, help="Also copy dependencies outside of the copied subtree."
)
@click.option(
    "--newest",
    "is_newest",
    is_flag=True,
    help="Use the newest versions of registered templates, not those that the tasks ran with.",
)
@click.option(
    "--reuse",
    "is_reusing",
    is_flag=True,
    help="Reuse finished model calls of earlier runs. Default: the copy calls models again.",
)
@click.option(
    "--from",
    "step",
    type=TEXT,
    metavar="STEP",
    help="Fork a run at this step (its id or key): reuse the steps before it, perform the others again.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="With --from: change an input of the run. May be repeated.",
)
@click.option(
    "--no-reuse", "is_fresh", is_flag=True, help="With --from: do not reuse cached results of other runs."
)
@store_options
def copy(
    task_id: TaskId,
    linked: tuple[TaskId, ...],
    with_dependencies: bool,
    is_newest: bool,
    is_reusing: bool,
    step: str | None,
    settings: tuple[str, ...],
    is_fresh: bool,
    db: str | None,
    user: str | None,
    is_json: bool,
) -> None:
    """Copy a task and its subtree as a new pending flow, to run completed work again.

    Start the copy with `weft run --resume ID` (a program run) or `weft flow run ID` (a flow). The steps of a
    program run are not copied, so it calls models again unless --reuse is given.

    --from STEP makes a fork. Steps before STEP whose requests are unchanged keep their results, including
    scripts and tool calls; STEP and all later steps are performed again.

    \b
    Examples:
      weft tasks copy 3f0e0c1e-5f8b-4a55-9f5c-0f6f5a1c2b7d
      weft tasks copy 3f0e0c1e-5f8b-4a55-9f5c-0f6f5a1c2b7d --from 2/1 --set style='"strict"'
    """
    if step is None and (settings or is_fresh):
        raise click.UsageError("--set and --no-reuse need --from STEP, which forks a run")
    if step is not None and (linked or with_dependencies or is_newest or is_reusing):
        message = "--from cannot be combined with --link, --with-dependencies, --newest and --reuse"
        raise click.UsageError(message)
    inputs = read_bindings(settings, ())

    async def make(app: "App") -> "Flow":
        if step is None:
            return await app.copy(
                task_id,
                linked=linked,
                with_dependencies=with_dependencies,
                newest=is_newest,
                reuse=is_reusing,
            )
        return await app.fork(task_id, step, inputs, reuse=not is_fresh)

    flow = with_app(db, user, make)
    print_flow(flow, is_json=is_json, did="copied to" if step is None else "forked to")
