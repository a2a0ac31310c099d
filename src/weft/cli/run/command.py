"""`weft run`."""

from typing import Any

import click

from weft.cli.options import evaluation_options, model_options, store_options, surface_option


@click.command("run")
@click.argument("program", required=False, metavar="FILE|FILE.py[:NAME]|NAME[@VERSION]|-")
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...")
@click.option(
    "--resume", "resumed", metavar="ID", help="Go on with a run: steps that have ended are not repeated."
)
@click.option("--ephemeral", "is_ephemeral", is_flag=True, help="Store nothing beyond the end of the run.")
@click.option(
    "--no-reuse", "is_fresh", is_flag=True, help="Ask models also what another run has asked them before."
)
@click.option("--name", metavar="NAME", help="What the run is called. Default: as the file or the template.")
@click.option(
    "--secret",
    "secrets",
    metavar="NAME[=VARIABLE]",
    multiple=True,
    help="Bind a name to what an environment variable holds; its name is stored, never the value.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Requests to models, scripts and tools at the same time.",
)
@evaluation_options
@model_options
@surface_option
@store_options
def run(program: str | None, values: tuple[str, ...], resumed: str | None, **options: Any) -> int:
    """Run a program, every step of which is stored; print its result.

    FILE is XML or S-expressions; of a Python file NAME is run, or what it calls `program` or `main`:
    something made with weft.build, or a function with @weft.task, called with the values. NAME=VALUE binds
    the names a program uses: a value that is JSON is JSON, @FILE is the text of a file. What is no file is a
    template that was registered with `weft library add`, and the values are its arguments. Programs can use
    registered templates, too; later changes of these do not change a run.

    The result goes to standard output, everything else to standard error. Kill it at any moment and go on
    with --resume: no step that has ended is performed again. A step that another run has performed with the
    same prompt, inputs, model and context is linked and not paid for again.

    Exit code 0: it completed; 1: it failed, and --resume tries again what failed; 2: the program is wrong,
    and nothing was run; 4: it waits for the answer of a person (weft tasks answer) and holds nothing;
    5: it could not be tried (no model, store or network), try again later; 130: it was interrupted.

    \b
    Examples:
      weft run review.xml code=@src/app.py
      weft run review@2 code=@src/app.py
      weft run report.sexp topic='"tests"' --model local:qwen
      weft run --resume 3f0e0c1e-5f8b-4a55-9f5c-0f6f5a1c2b7d
    """
    # Imported here: `weft run --help` must not pay for it.
    from weft.cli.run.session import RunOptions, run_program

    if (program is None) == (resumed is None):
        raise click.UsageError("give a program, or --resume ID")
    return run_program(program, values, resumed, RunOptions(**options))
