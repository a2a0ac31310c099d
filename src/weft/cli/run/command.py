"""`weft run`."""

from typing import Any

import click

from weft.cli.options import evaluation_options, model_options, store_options, surface_option


@click.command("run")
@click.argument("program", required=False, metavar="FILE|FILE.py[:NAME]|NAME[@VERSION]|-")
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...")
@click.option(
    "--resume", "resumed", metavar="ID", help="Resume a run; finished steps are not performed again."
)
@click.option("--ephemeral", "is_ephemeral", is_flag=True, help="Delete all records of the run when it ends.")
@click.option("--no-reuse", "is_fresh", is_flag=True, help="Do not reuse cached results of earlier runs.")
@click.option("--name", metavar="NAME", help="Name of the run. Default: the name of the file or template.")
@click.option(
    "--secret",
    "secrets",
    metavar="NAME[=VARIABLE]",
    multiple=True,
    help="Bind NAME to the value of an environment variable (default: NAME). Only the variable's name is "
    "stored, never its value. May be repeated.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Maximum number of model requests, scripts and tool calls at the same time.",
)
@evaluation_options
@model_options
@surface_option
@store_options
def run(program: str | None, values: tuple[str, ...], resumed: str | None, **options: Any) -> int:
    """Run a program durably and print its result.

    FILE is XML or S-expressions. FILE.py:NAME runs an object of a Python file that was made with weft.build
    or @weft.task; without :NAME, the object named `program` or `main`. Any other NAME is a template that was
    registered with `weft library add`. Programs can use registered templates; later changes of a template do
    not affect a run.

    NAME=VALUE binds an input of the program, or an argument of the template, to JSON, to the text of a file
    (@FILE), or to plain text. The result goes to standard output, everything else to standard error.

    Every step is stored. A run that was killed is resumed with --resume, and finished steps are not performed
    again. A step that another run performed with the same prompt, inputs, model and context is reused and
    costs nothing.

    Exit code 0: completed; 1: failed, --resume retries the failed steps; 2: invalid program, nothing was run;
    3: no such template or run; 4: suspended until a person answers a question (weft tasks answer); 5: no
    model, store or network, try again later; 130: interrupted.

    \b
    Examples:
      weft run review.xml code=@src/app.py
      weft run review@2 code=@src/app.py
      weft run report.sexp topic='"tests"' --model local:qwen
      weft run --resume 3f0e0c1e-5f8b-4a55-9f5c-0f6f5a1c2b7d
    """
    # Imported here: keeps --help fast.
    from weft.cli.run.session import RunOptions, run_program

    if (program is None) == (resumed is None):
        raise click.UsageError("give either a program or --resume ID")
    return run_program(program, values, resumed, RunOptions(**options))
