"""`weft check`."""

import click

from weft.app.sources import check_programs, read_programs
from weft.cli.display.output import plural, print_json, printable
from weft.cli.display.problems import print_problems
from weft.cli.invoke import echo
from weft.cli.options import read_stdin, surface_option
from weft.cli.store_access import StoreOptions, store_options
from weft.config.settings import load_settings
from weft.errors import EXIT_INVALID
from weft.language.diagnostics import sort_problems
from weft.language.reading import Surface


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE|FOLDER|-...")
@click.option("--registered", "is_registered", is_flag=True, help="Also use the templates of the store.")
@surface_option
@store_options
def check(
    paths: tuple[str, ...],
    surface: Surface | None,
    is_registered: bool,
    store: StoreOptions,
) -> int:
    """Check programs for problems without running them.

    Lists every problem with file, line and column. A folder stands for all its files that end in .xml, .sexp,
    .weft or .lisp. All files are checked as one library: they can use each other's templates, and with
    --registered those of the store. The inputs that a program requires are printed to standard error. Exit
    code 0: no problems; 2: problems found.

    \b
    Examples:
      weft check review.xml
      weft check templates/ --registered
    """
    loaded, problems = read_programs(paths, surface, read_stdin)
    registered = store.run(lambda app: app.library.for_checks()).tasks if is_registered else {}
    checked, inputs = check_programs(loaded, problems, registered, load_settings())
    found = sort_problems([*problems, *checked])
    if store.is_json:
        print_json({"problems": [problem.as_json() for problem in found], "inputs": inputs})
    else:
        print_problems(found, to_stderr=False)
        for name, names in inputs.items():
            echo(printable(f"{name}: inputs: {', '.join(names)}"), err=True)
        files = {problem.span.source.name for problem in found} or loaded
        summary = f"{plural(len(files), 'file')} checked, no problems"
        if found:
            summary = f"{plural(len(found), 'problem')} in {plural(len(files), 'file')}"
        echo(summary, err=True)
    return EXIT_INVALID if found else 0
