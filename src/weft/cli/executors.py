"""`weft executors`."""

from typing import Any

import click
import msgspec

from weft.app.host import StoreNotFound
from weft.app.wiring import program_executor_summary, project_executors
from weft.cli.display.output import print_json, print_table, printable
from weft.cli.invoke import echo
from weft.cli.store_access import StoreOptions, store_options
from weft.config.sections import ExecutorSettings
from weft.config.settings import Settings
from weft.executors.protocol import output_schema_of
from weft.executors.registry import BUILT_IN, Registered


@click.command()
@click.argument("executor_id", metavar="[ID]", required=False)
@store_options
def executors(executor_id: str | None, store: StoreOptions) -> None:
    """List the executors that `schemas.method` of a task can name; with an ID, show its inputs.

    Executors are built into weft, come from installed plug-ins (entry points of the group weft.executors), or
    are templates registered in the store. weft.toml sets what the built-in ones may do; `weft executors ID`
    shows the current settings.

    \b
    Examples:
      weft executors
      weft executors command
    """
    project = store.settings()
    settings, registry = project.executors, project_executors(project)
    known = {entry.id: _describe(entry, settings) for entry in registry.describe()}
    # The registry lacks the executor of programs, which needs an open store.
    programs = _entry("template", program_executor_summary(), BUILT_IN, {"type": "object"})
    known = {**_describe_templates(store, project), "template": programs, **known}
    if executor_id is not None:
        if executor_id not in known or "error" in known[executor_id]:
            registry.get(executor_id)  # raises an error that says why it is not available
        _show(known[executor_id], is_json=store.is_json)
        return
    described = [known[name] for name in sorted(known)]
    if store.is_json:
        print_json({"executors": described})
        return
    print_table(["ID", "TYPE", "SUMMARY"], [_row(entry) for entry in described])


def _describe(entry: Registered, settings: ExecutorSettings) -> dict[str, Any]:
    if entry.executor is None:
        return {"id": entry.id, "source": entry.source, "error": entry.error}
    described = {
        "id": entry.id,
        "type": entry.executor.type.value,
        "summary": entry.executor.summary,
        "source": entry.source,
        "input_schema": entry.executor.input_schema,
        "output_schema": output_schema_of(entry.executor),
    }
    in_force = getattr(settings, entry.id, None)
    return described if in_force is None else {**described, "settings": in_force}


def _describe_templates(store: StoreOptions, settings: Settings) -> dict[str, dict[str, Any]]:
    """Describe the templates of the store, by name; empty if there is no store."""
    try:
        found = store.run(lambda app: app.library.find_all(), settings=settings)
    except StoreNotFound:
        return {}
    return {
        one.name: _entry(
            one.name,
            one.facts.summary or f"A template ({one.facts.type}).",
            f"library, version {one.version}",
            one.facts.input_schema,
        )
        for one in found
    }


def _entry(name: str, summary: str, source: str, input_schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": name,
        "type": "local",
        "summary": summary,
        "source": source,
        "input_schema": input_schema,
        "output_schema": None,
    }


def _row(entry: dict[str, Any]) -> tuple[str, str, str]:
    if "error" in entry:
        return printable(entry["id"]), "-", printable(f"not loaded: {entry['error']}")
    return printable(entry["id"]), entry["type"], printable(entry["summary"])


def _show(entry: dict[str, Any], *, is_json: bool) -> None:
    if is_json:
        print_json(entry)
        return
    echo(f"{printable(entry['id'])}: {printable(entry['summary'])}")
    echo(f"type    {entry['type']}\nsource  {printable(entry['source'])}")
    if "settings" in entry:
        echo(f"\nCurrent settings ([executors.{entry['id']}] in weft.toml):")
        for name, value in msgspec.to_builtins(entry["settings"]).items():
            echo(f"  {name} = {printable(msgspec.json.encode(value).decode())}")
    echo("\nInputs (JSON Schema):")
    print_json(entry["input_schema"])
    if entry["output_schema"] is not None:
        echo("\nResult (JSON Schema):")
        print_json(entry["output_schema"])
