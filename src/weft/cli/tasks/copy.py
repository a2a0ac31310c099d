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
    "--with-dependencies", is_flag=True, help="Take along what the copied tasks depend on elsewhere."
)
@click.option(
    "--newest",
    "is_newest",
    is_flag=True,
    help="Take registered templates as they are now, not in the versions that the tasks ran with.",
)
@click.option(
    "--reuse",
    "is_reusing",
    is_flag=True,
    help="Link what models answered before. Without it a copy asks them again.",
)
@click.option(
    "--from",
    "step",
    type=TEXT,
    metavar="STEP",
    help="Fork a run: link what came before this step (its id or key), perform it and what comes after.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="With --from: another value for an input of the run. May be repeated.",
)
@click.option("--no-reuse", "is_fresh", is_flag=True, help="With --from: link no answers of other runs.")
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
    """Copy a task and all below it as a new pending flow: how completed work is run again.

    The copy of a run of a program has no steps: it makes its own when it is evaluated, and asks models again
    unless --reuse is given. With --from the copy is a fork of the run: steps before STEP that ask for the
    same are linked from it, scripts and tools too; STEP and what comes after it is performed. Start it with
    `weft run --resume ID`.

    \b
    Examples:
      weft tasks copy 3f0e0c1e-5f8b-4a55-9f5c-0f6f5a1c2b7d
      weft tasks copy 3f0e0c1e-5f8b-4a55-9f5c-0f6f5a1c2b7d --from 2/1 --set style='"strict"'
    """
    if step is None and (settings or is_fresh):
        raise click.UsageError("--set and --no-reuse are for forks of runs; say --from STEP too")
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
