"""Registered templates in PostgreSQL, and the params of running program tasks."""

from collections.abc import Iterable
from typing import Any

import asyncpg
import msgspec

from weft.store.columns import json_text, json_value
from weft.store.errors import StoreError
from weft.store.models import (
    AddedTemplate,
    AddTemplates,
    NewTemplate,
    RegisteredTemplate,
    RemoveTemplate,
    TemplateFacts,
    UpdateParams,
)
from weft.store.postgresql.rows import Entry, is_storable, is_stored_form
from weft.store.sql import load_queries

_SQL = load_queries("postgresql")


async def add_templates(connection: asyncpg.Connection, entry: Entry) -> tuple[AddedTemplate, ...]:
    """Register templates. Return their versions, new or unchanged."""
    request: AddTemplates = entry.request
    texts = [request.user_id, *(part for one in request.templates for part in (one.name, one.text))]
    if not all(map(is_storable, texts)):
        raise StoreError(
            "the store rejected the write: a template or its owner contains NUL or a lone surrogate"
        )
    return tuple([await _add(connection, one, request) for one in request.templates])


async def remove_template(connection: asyncpg.Connection, entry: Entry) -> RegisteredTemplate | None:
    """Remove a template. Return its newest version, or None if it is not registered."""
    request: RemoveTemplate = entry.request
    if not is_storable(request.name) or not is_storable(request.user_id):
        return None
    newest = await _newest(connection, request.name, request.user_id)
    if newest is None or newest.removed_at is not None:
        return None
    await connection.execute(
        _SQL["remove_template"], request.name, request.user_id, newest.version, request.now
    )
    return msgspec.structs.replace(newest, removed_at=request.now)


async def update_params(connection: asyncpg.Connection, entry: Entry) -> bool:
    """Update the params of a task. Return whether the attempt was held."""
    request: UpdateParams = entry.request
    run = request.run
    if not is_stored_form(run.task_id):
        return False
    changed = await connection.execute(
        _SQL["update_params"], run.task_id, run.attempt, json_text(request.params), request.now
    )
    return bool(changed == "UPDATE 1")


def template_of(row: Iterable[Any]) -> RegisteredTemplate:
    name, version, user_id, text, facts, created_at, removed_at = row
    known = msgspec.convert(json_value(facts), TemplateFacts)
    return RegisteredTemplate(name, version, user_id, text, known, created_at, removed_at)


async def _add(connection: asyncpg.Connection, new: NewTemplate, request: AddTemplates) -> AddedTemplate:
    newest = await _newest(connection, new.name, request.user_id)
    if newest is not None and newest.removed_at is None and newest.text == new.text:
        return AddedTemplate(newest, is_new=False)
    version = 1 if newest is None else newest.version + 1
    facts = json_text(msgspec.to_builtins(new.facts))
    await connection.execute(
        _SQL["insert_template"], new.name, version, request.user_id, new.text, facts, request.now
    )
    added = RegisteredTemplate(new.name, version, request.user_id, new.text, new.facts, request.now)
    return AddedTemplate(added, is_new=True)


async def _newest(
    connection: asyncpg.Connection, name: str, user_id: str | None
) -> RegisteredTemplate | None:
    row = await connection.fetchrow(_SQL["newest_template"], name, user_id)
    return None if row is None else template_of(row)
