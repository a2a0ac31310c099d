"""`weft context`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from weft.app.memory import SearchedFolders, add_commit_times, find_context, searched_folders
from weft.cli.display.model_events import EffectDisplay
from weft.cli.display.output import print_json, print_table, printable
from weft.cli.eval import run
from weft.cli.invoke import echo, echo_status
from weft.cli.options import TEXT, index_db_option, json_option
from weft.errors import EXIT_FAILED
from weft.evaluator.effects import ContextQuery

MAX_SHOWN_WORDS = 6
"""How many matched words a row shows; --explain shows all."""


@click.command("context")
@click.argument("query", type=TEXT)
@click.option(
    "--explain",
    "is_explained",
    is_flag=True,
    help="Show all matched words, where they matched, and when each file was last committed.",
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 1000),
    help="Maximum number of matching passages, at most three per file.",
)
@click.option(
    "--strategy",
    type=click.Choice(["content", "metadata"]),
    default="content",
    show_default=True,
    help="Search the text of files, or only their paths, titles, names and headings.",
)
@click.option("--rerank", "is_ranked", is_flag=True, help="Let a model rank the matches.")
@click.option(
    "--model", metavar="MODEL", type=TEXT, help="Model for --rerank. Environment variable: WEFT_MODEL."
)
@click.option(
    "--path",
    "roots",
    metavar="ROOT",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Search this folder instead of the project's roots. May be repeated.",
)
@index_db_option
@json_option
def context(
    query: str,
    is_explained: bool,
    limit: int | None,
    strategy: str,
    is_ranked: bool,
    model: str | None,
    roots: tuple[Path, ...],
    db: str | None,
    is_json: bool,
) -> int:
    """Find the files that are relevant to QUERY: those that a task with `fresh_context` gets for it.

    Searches the roots of `[memory]` in weft.toml; without these the roots of `[tools]`, or else the working
    folder. --path searches other folders. New and changed files are indexed first. Each row shows a file with
    the matching lines, a score between 0 and 1 (comparable within one search only) and the matched words.
    --json prints the AssociativeMatchResult, with the text of the matches.

    \b
    Examples:
      weft context "where are prices rounded?"
      weft context "login sessions" --explain --limit 5
    """
    if not query.strip():
        raise click.UsageError("QUERY is blank: give the words to search for")
    wanted = ContextQuery(
        query=query, matching_strategy=strategy, limit=limit, rerank=True if is_ranked else None
    )
    display = EffectDisplay()
    hooks = display.hooks()
    try:
        result = run(lambda: find_context(wanted, hooks, model=model, roots=roots, db=db))
    finally:
        display.end()
    if is_explained:
        add_commit_times(result["matches"])
    if is_json:
        print_json(result)
    else:
        _print(result, is_explained=is_explained)
        _print_where(searched_folders(roots, db), has_found=bool(result["matches"]))
    return EXIT_FAILED if result.get("error") and not result["matches"] else 0


def _print(result: dict[str, Any], *, is_explained: bool) -> None:
    if result.get("error"):
        echo_status(f"warning: {printable(result['error'])}")
    rows = [_row(item, is_explained=is_explained) for item in result["matches"]]
    if rows:
        print_table(["FILE", "SCORE", "WHY"], rows)
    else:
        echo("no matches")


def _print_where(folders: SearchedFolders, *, has_found: bool) -> None:
    """Print the folders that were searched, and the other indexed ones if nothing was found."""
    echo_status(f"searched {', '.join(map(printable, folders.searched))}")
    if not has_found and folders.others:
        echo_status(f"also indexed, search them with --path: {', '.join(map(printable, folders.others))}")


def _row(item: dict[str, Any], *, is_explained: bool) -> tuple[str, str, str]:
    score = f"{item.get('relevance_score', 1.0):.2f}"
    return printable(item["id"]), score, printable(_why(item, is_explained=is_explained))


def _why(item: dict[str, Any], *, is_explained: bool) -> str:
    why: dict[str, list[str]] = item.get("metadata", {}).get("why", {})
    if is_explained:
        parts = [f"{field}: {', '.join(words)}" for field, words in why.items()]
        if (time := item["metadata"].get("committed_at")) is not None:
            parts.append(f"committed: {datetime.fromtimestamp(time, UTC):%Y-%m-%d}")
        return "; ".join(parts)
    words = list(dict.fromkeys(word for found in why.values() for word in found))
    more = f" +{len(words) - MAX_SHOWN_WORDS}" if len(words) > MAX_SHOWN_WORDS else ""
    return f"{', '.join(words[:MAX_SHOWN_WORDS])}{more}"
