"""Registered templates in SQLite, and the params of running program tasks."""

from typing import Any

import msgspec

from weft.store.columns import json_text, json_value
from weft.store.models import (
    AddedTemplate,
    AddTemplates,
    NewTemplate,
    RegisteredTemplate,
    RemoveTemplate,
    TemplateFacts,
    UpdateParams,
)
from weft.store.sqlite.rows import micros, moment
from weft.store.sqlite.unit_of_work import SQL, UnitOfWork


def add_templates(unit: UnitOfWork, request: AddTemplates) -> tuple[AddedTemplate, ...]:
    """Register templates. Return their versions, new or unchanged."""
    return tuple(_add(unit, template, request) for template in request.templates)


def remove_template(unit: UnitOfWork, request: RemoveTemplate) -> RegisteredTemplate | None:
    """Remove a template. Return its newest version, or None if it is not registered."""
    newest = _newest(unit, request.name, request.user_id)
    if newest is None or newest.removed_at is not None:
        return None
    unit.execute(SQL["remove_template"], (request.name, request.user_id, newest.version, micros(request.now)))
    return msgspec.structs.replace(newest, removed_at=request.now)


def update_params(unit: UnitOfWork, request: UpdateParams) -> bool:
    """Update the params of a task. Return whether the attempt was held."""
    run = request.run
    values = (run.task_id, run.attempt, json_text(request.params), micros(request.now))
    return unit.execute(SQL["update_params"], values).rowcount == 1


def template_of(row: tuple[Any, ...]) -> RegisteredTemplate:
    name, version, user_id, text, facts, created_at, removed_at = row
    return RegisteredTemplate(
        name,
        version,
        user_id,
        text,
        msgspec.convert(json_value(facts), TemplateFacts),
        moment(created_at),
        None if removed_at is None else moment(removed_at),
    )


def _add(unit: UnitOfWork, new: NewTemplate, request: AddTemplates) -> AddedTemplate:
    newest = _newest(unit, new.name, request.user_id)
    if newest is not None and newest.removed_at is None and newest.text == new.text:
        return AddedTemplate(newest, is_new=False)
    version = 1 if newest is None else newest.version + 1
    facts = json_text(msgspec.to_builtins(new.facts))
    values = (new.name, version, request.user_id, new.text, facts, micros(request.now))
    unit.execute(SQL["insert_template"], values)
    added = RegisteredTemplate(new.name, version, request.user_id, new.text, new.facts, request.now)
    return AddedTemplate(added, is_new=True)


def _newest(unit: UnitOfWork, name: str, user_id: str | None) -> RegisteredTemplate | None:
    row = unit.execute(SQL["newest_template"], (name, user_id)).fetchone()
    return None if row is None else template_of(row)
