"""Which fields of the record are JSON, times, truth values, enumerations: by their place in the record."""

from msgspec import inspect

from weft.tasks.record import Task


def _kind(info: object) -> str:
    while isinstance(info, inspect.Metadata):
        info = info.type
    if isinstance(info, inspect.UnionType):
        return _kind(next(member for member in info.types if not isinstance(member, inspect.NoneType)))
    return type(info).__name__


_INFO = inspect.type_info(Task)
assert isinstance(_INFO, inspect.StructType)  # noqa: S101 - for the type checker
_KINDS = tuple(_kind(field.type) for field in _INFO.fields)

JSON_FIELDS = tuple(i for i, kind in enumerate(_KINDS) if kind == "DictType")
TIME_FIELDS = tuple(i for i, kind in enumerate(_KINDS) if kind == "DateTimeType")
BOOL_FIELDS = tuple(i for i, kind in enumerate(_KINDS) if kind == "BoolType")
ENUM_FIELDS = tuple(i for i, kind in enumerate(_KINDS) if kind == "EnumType")
DEPENDENCIES_FIELD = _KINDS.index("VarTupleType")
