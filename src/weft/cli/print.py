"""`weft print`."""

import click

from weft.app.sources import read_program
from weft.cli.display.output import print_bytes, print_json
from weft.cli.options import read_stdin, surface_option
from weft.language.dump import program_data, program_lines
from weft.language.reading import Surface
from weft.language.sexp import print_program


@click.command("print")
@click.argument("file", metavar="FILE|-")
@click.option(
    "--to",
    "form",
    type=click.Choice(["sexp", "tree", "json"]),
    default="sexp",
    show_default=True,
    help="Output: S-expressions, the syntax tree as text, or the syntax tree as JSON.",
)
@surface_option
@click.option("--json", "is_json", is_flag=True, help="Same as --to json.")
def print_command(file: str, form: str, surface: Surface | None, is_json: bool) -> None:
    """Print a program as S-expressions, a syntax tree or JSON.

    FILE may be XML or S-expressions. The printed S-expressions are the same program, without its comments.

    \b
    Examples:
      weft print review.xml
      weft print review.xml --to tree
    """
    program = read_program(file, surface, read_stdin)
    if is_json or form == "json":
        print_json(program_data(program))
        return
    text = print_program(program) if form == "sexp" else "\n".join(program_lines(program))
    print_bytes(text.rstrip("\n").encode())
