"""`weft tasks cancel`, `answer`, `retry`, `copy`, `link`, `archive`, `update`, `delete` and `export`."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from weft.app.app import App
from weft.cli.display.output import (
    escape_json,
    plural,
    print_bytes,
    print_flow,
    print_json,
    print_result,
    printable,
)
from weft.cli.options import CERTAIN_TASK_ID, TASK_ID, TEXT, UnreadableFile, read_bindings, read_input
from weft.cli.store_access import StoreOptions, store_options
from weft.errors import RequestError, WeftError
from weft.ids import TaskId
from weft.tasks.flow import Flow, nested_json
from weft.tasks.operations import Answered
from weft.tasks.parsing.problems import task_object
from weft.tasks.questions import question_text


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option(
    "--reason",
    default="cancelled",
    show_default=True,
    help="Reason; stored as the error of each cancelled task.",
)
@store_options
def cancel(task_id: TaskId, reason: str, store: StoreOptions) -> None:
    """Cancel a task and all unfinished tasks of its subtree; to cancel a flow, give the id of its root.

    Pending and running tasks are recorded as cancelled at once. The worker of a running task stops it within
    about a second.
    """
    cancelled = store.run(lambda app: app.cancel(task_id, reason=reason))
    text = f"cancelled {plural(len(cancelled), 'task')}"
    print_result({"cancelled": cancelled}, text, is_json=store.is_json)


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@store_options
def retry(task_id: TaskId, store: StoreOptions) -> None:
    """Reset a failed task and the failed tasks of its subtree to pending.

    `weft flow run ID` then runs them; `weft run --resume ID` does both for a program run.
    """
    retried = store.run(lambda app: app.retry(task_id))
    text = f"{plural(len(retried), 'task')} reset to pending; resume with: weft flow run {task_id}"
    print_result({"retried": retried}, text, is_json=store.is_json)


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@store_options
def link(task_id: TaskId, store: StoreOptions) -> None:
    """Create a new flow with the results of a completed task and its subtree.

    Nothing is run: each new task has its own id and the result of the task it links to.
    """
    print_flow(store.run(lambda app: app.link(task_id)), is_json=store.is_json, did="linked as")


@click.command()
@click.argument("task_id", metavar="ID", type=CERTAIN_TASK_ID)
@store_options
def archive(task_id: TaskId, store: StoreOptions) -> None:
    """Create a frozen deep copy of a completed task and its subtree, for audit.

    An archive cannot be changed; use `weft tasks copy` to work with its contents.
    """
    print_flow(store.run(lambda app: app.archive(task_id)), is_json=store.is_json, did="archived as")


@click.command()
@click.argument("task_ids", metavar="ID...", type=CERTAIN_TASK_ID, nargs=-1, required=True)
@click.option("--with-children", is_flag=True, help="Also delete the subtrees of the tasks.")
@store_options
def delete(task_ids: tuple[TaskId, ...], with_children: bool, store: StoreOptions) -> None:
    """Delete pending tasks; all of their children, dependents and copies must be deleted with them.

    Either all given tasks are deleted, or none.
    """
    deleted = store.run(lambda app: app.delete(task_ids, with_children=with_children))
    print_result({"deleted": deleted}, f"deleted {plural(len(deleted), 'task')}", is_json=store.is_json)


STDIN = "-"


def _read_answer() -> str:
    try:
        return read_input(STDIN).decode("utf-8")
    except UnicodeDecodeError as error:  # only one answer is accepted, so never store a damaged one
        raise UnreadableFile(f"standard input is not UTF-8 text: {error.reason}") from None


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.argument("text", required=False, metavar="[TEXT|-]")
@store_options
def answer(task_id: TaskId, text: str | None, store: StoreOptions) -> None:
    """Answer a question that a run asks a person.

    ID is the id of the question, or of the run if it has asked only one question. TEXT is the answer; - reads
    it from standard input. Without TEXT, the question is shown and a line is read from the terminal. Then a
    worker (weft serve) resumes the run; without a worker, resume it with `weft run --resume`.

    A question can be answered once. Repeating the same answer changes nothing; another answer is an error.

    \b
    Examples:
      weft tasks answer 3f0e0c1e-5f8b-4a55-9f5c-0f6f5a1c2b7d "yes, deploy it"
      weft tasks answer 3f0e0c1e-5f8b-4a55-9f5c-0f6f5a1c2b7d - < answer.txt
    """
    if text == STDIN:
        text = _read_answer().removesuffix("\n")
    if text is None and (store.is_json or not sys.stdin.isatty()):
        raise click.UsageError("give the answer as TEXT, or - to read it from standard input")
    answered = store.run(lambda app: _answer(app, task_id, text))
    question = answered.question
    verb = "already answered with this text, nothing changed:" if answered.is_repeated else "answered"
    text = f"{verb} {question.id}; resume with: weft run --resume {question.task_tree_id}"
    print_result(task_object(question), text, is_json=store.is_json)


async def _answer(app: App, task_id: TaskId, text: str | None) -> Answered:
    question = await app.find_question(task_id, is_shown=text is None)
    if text is None:
        text = click.prompt(printable(question_text(question)), default="", show_default=False, err=True)
    return await app.answer(question.id, text)


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
    store: StoreOptions,
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

    async def make(app: App) -> Flow:
        if step is None:
            return await app.copy(
                task_id,
                linked=linked,
                with_dependencies=with_dependencies,
                newest=is_newest,
                reuse=is_reusing,
            )
        return await app.fork(task_id, step, inputs, reuse=not is_fresh)

    flow = store.run(make)
    print_flow(flow, is_json=store.is_json, did="copied to" if step is None else "forked to")


class InvalidAssignment(RequestError):
    """An argument does not have the form field=value."""

    code = "invalid-assignment"


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.argument("assignments", metavar="FIELD=VALUE...", nargs=-1, required=True)
@store_options
def update(task_id: TaskId, assignments: tuple[str, ...], store: StoreOptions) -> None:
    """Set fields of a task.

    VALUE is JSON, @FILE for the contents of a file, or plain text. parent_id and user_id cannot be changed;
    dependencies (ids) only while the task is pending; inputs, params and schemas while it is pending or
    failed.

    \b
    Examples:
      weft tasks update ID priority=0 name="Nightly report"
      weft tasks update ID inputs='{"url": "https://example.com"}'
      weft tasks update ID inputs=@inputs.json
    """
    fields = parse_assignments(assignments)
    task = store.run(lambda app: app.update(task_id, fields))
    print_result(task_object(task), f"updated {task.id}: {', '.join(sorted(fields))}", is_json=store.is_json)


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Parse FIELD=VALUE arguments; raise InvalidAssignment if one is malformed or repeated."""
    fields: dict[str, Any] = {}
    wrong: list[str] = []
    for assignment in assignments:
        field, equals, text = assignment.partition("=")
        if not field or not equals:
            wrong.append(f"{assignment!r} is not of the form field=value")
        elif field in fields:
            wrong.append(f"{field} is given twice")
        else:
            fields[field] = _parse_value(_file_text(text[1:]) if text.startswith("@") else text)
    if wrong:
        raise InvalidAssignment("; ".join(wrong))
    return fields


def _file_text(name: str) -> str:
    try:
        return read_input(name).decode()
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"{name}: not UTF-8 text") from error


def _parse_value(text: str) -> Any:
    """Decode JSON; return the text itself if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


class UnwritableFile(WeftError):
    """A file named on the command line cannot be written."""

    code = "unwritable-file"


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option("-o", "--output", metavar="FILE", help="Write to a file instead of standard output.")
@store_options
def export(task_id: TaskId, output: str | None, store: StoreOptions) -> None:
    """Export the flow of a task as JSON, which `weft flow submit` reads.

    The JSON is a tree: {"task": ..., "children": [...]}. A tree deeper than 200 levels is written as an
    equivalent flat list of tasks.

    \b
    Example:
      weft tasks export 3f0e0c1e-5f8b-4a55-9f5c-0f6f5a1c2b7d -o flow.json
    """
    flow = store.run(lambda app: app.export(task_id))
    text = escape_json(nested_json(flow))
    if output is None:
        print_bytes(text)
        return
    write_whole(Path(output), text + b"\n")
    if store.is_json:
        print_json({"root_id": flow.root.id, "file": output})


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: write a temporary file beside it, then rename that."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UnwritableFile(f"{path}: {error.strerror}") from error
