"""Writes the parts of the documentation that follow from the code: docs/cli.md and docs/errors.md."""

import importlib
import pkgutil
import sys
from pathlib import Path

import click

import weft
from weft.cli.main import weft as root_command
from weft.errors import error_classes

DOCS = Path(__file__).parents[1] / "docs"


def cli_page() -> str:
    """The page with every command's help."""
    parts = ["# The command line\n\nMade by `scripts/generate_docs.py` from the commands' own help.\n"]
    stack: list[tuple[click.Command, click.Context]] = [
        (root_command, click.Context(root_command, info_name="weft", **root_command.context_settings))
    ]
    while stack:
        command, context = stack.pop(0)
        context.max_content_width = 100
        context.terminal_width = 100
        title = context.command_path
        text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
        parts.append(f"## {title}\n\n```text\n{text}\n```\n")
        if isinstance(command, click.Group):
            children = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
            stack[:0] = [
                (child, click.Context(child, info_name=name, parent=context))
                for name, child in children
                if child
            ]
    return "\n".join(parts)


def errors_page() -> str:
    """The page with every error code."""
    for module in pkgutil.walk_packages(weft.__path__, "weft."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    rows = sorted(
        {(error.code, error.exit_code, (error.__doc__ or "").splitlines()[0]) for error in error_classes()}
    )
    lines = [
        "# Errors",
        "",
        "Made by `scripts/generate_docs.py` from the error classes. Every error has a stable code.",
        "The command line prints `error: CODE: message` and exits with the code's exit status; with",
        '`--json` it prints `{"error": {"code", "message", "problems"}}`. Two codes belong to the command',
        "line itself: `usage` (exit 2) for a wrong option or argument, `interrupted` (exit 130).",
        "",
        "Exit codes: 0 success, 1 the work failed, 2 the input is wrong, 3 not found, 4 waits for a person,",
        "5 could not be tried (no model, store or network: try again later; also a `task-failed`,",
        "`run-failed` or `model-error` for that reason), 130 interrupted.",
        "",
        "| code | exit | meaning |",
        "|---|---|---|",
        *(f"| `{code}` | {exit_code} | {meaning} |" for code, exit_code, meaning in rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the pages; with --check only say whether they are up to date."""
    pages = {DOCS / "cli.md": cli_page(), DOCS / "errors.md": errors_page()}
    if "--check" in sys.argv:
        return int(any(not path.exists() or path.read_text() != text for path, text in pages.items()))
    for path, text in pages.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
