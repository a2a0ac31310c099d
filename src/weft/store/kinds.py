"""Which record fields are JSON, times, truth values and enumerations: what row mappings turn on."""

from msgspec import inspect

from weft.tasks.record import Task


def _kinds() -> dict[str, str]:
    fields = inspect.type_info(Task).fields  # type: ignore[attr-defined]
    return {field.name: _kind(field.type) for field in fields}


def _kind(info: object) -> str:
    while isinstance(info, inspect.Metadata):
        info = info.type
    if isinstance(info, inspect.UnionType):
        return _kind(next(member for member in info.types if not isinstance(member, inspect.NoneType)))
    return type(info).__name__


_KINDS = tuple(_kinds().values())

JSON_COLUMNS = tuple(i for i, kind in enumerate(_KINDS) if kind == "DictType")
TIME_COLUMNS = tuple(i for i, kind in enumerate(_KINDS) if kind == "DateTimeType")
BOOL_COLUMNS = tuple(i for i, kind in enumerate(_KINDS) if kind == "BoolType")
ENUM_COLUMNS = tuple(i for i, kind in enumerate(_KINDS) if kind == "EnumType")
DEPENDENCIES_COLUMN = _KINDS.index("VarTupleType")
