"""Registered templates: the task library of each owner."""

from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from weft.store.columns import json_text, json_value
from weft.store.models import AddedTemplate, NewTemplate, Owner, RegisteredTemplate, TemplateFacts
from weft.store.unit_of_work import Dialect, Row, StorePart, Unit, Work, write


class Templates(StorePart):
    """Keeps every version of every template."""

    @write(is_large=True)
    def add_templates(
        self, unit: Unit, templates: Sequence[NewTemplate], *, user_id: str | None, now: datetime
    ) -> Work[Sequence[AddedTemplate]]:
        """Register templates of an owner, all or none; an unchanged text makes no new version."""
        added = []
        for new in templates:
            newest = yield from _newest(unit, new.name, user_id)
            if newest is not None and newest.removed_at is None and newest.text == new.text:
                added.append(AddedTemplate(newest, is_new=False))
                continue
            version = 1 if newest is None else newest.version + 1
            facts = json_text(msgspec.to_builtins(new.facts))
            yield "insert_template", (new.name, version, user_id, new.text, facts, now)
            template = RegisteredTemplate(new.name, version, user_id, new.text, new.facts, now)
            added.append(AddedTemplate(template, is_new=True))
        return added

    @write()
    def remove_template(
        self, unit: Unit, name: str, *, user_id: str | None, now: datetime
    ) -> Work[RegisteredTemplate | None]:
        """Remove an owner's template, and return its newest version, or None if it is not registered.

        `template_versions` still returns the template, because runs refer to versions.
        """
        newest = yield from _newest(unit, name, user_id)
        if newest is None or newest.removed_at is not None:
            return None
        yield "remove_template", (name, user_id, newest.version, now)
        return msgspec.structs.replace(newest, removed_at=now)

    async def templates(
        self, *, owner: Owner, names: Collection[str] | None = None
    ) -> Sequence[RegisteredTemplate]:
        """Return the newest versions of all templates, or of those in `names` that exist, sorted by name."""
        wanted = None if names is None else list(names)
        return await self._read(
            self._templates_of, ("list_templates", (owner.is_everyone, owner.user_id, wanted))
        )

    async def template_versions(self, name: str, *, owner: Owner) -> Sequence[RegisteredTemplate]:
        """Return all versions of a template, oldest first, even if it was removed."""
        return await self._read(
            self._templates_of, ("template_versions", (name, owner.is_everyone, owner.user_id))
        )

    async def known_templates(self, names: Collection[str]) -> frozenset[str]:
        """Return the names that any owner ever registered, out of `names`."""
        return await self._read(
            lambda rows: frozenset(row[0] for row in rows), ("template_names", (list(names),))
        )

    def _templates_of(self, rows: Sequence[Row]) -> list[RegisteredTemplate]:
        return [_template_of(row, self.dialect) for row in rows]


def _newest(unit: Unit, name: str, user_id: str | None) -> Work[RegisteredTemplate | None]:
    rows = yield "newest_template", (name, user_id)
    return _template_of(rows[0], unit.dialect) if rows else None


def _template_of(row: Row, dialect: Dialect) -> RegisteredTemplate:
    name, version, user_id, text, facts, created_at, removed_at = row
    return RegisteredTemplate(
        name,
        version,
        user_id,
        text,
        msgspec.convert(json_value(facts), TemplateFacts),
        dialect.time_of(created_at),
        None if removed_at is None else dialect.time_of(removed_at),
    )
