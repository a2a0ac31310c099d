"""Built-ins for dicts and JSON. Dicts are immutable; a built-in that changes a dict returns a new one."""

from collections.abc import Mapping
from typing import Any

import msgspec

from weft.evaluator.builtins.table import as_list, built_in, check_size, require_type, wrong_type
from weft.evaluator.errors import program_error
from weft.evaluator.results import TaskResult
from weft.evaluator.values import check_finite, fields_of, json_text, part_of
from weft.language.ast import Symbol


def _require_key(name: str, value: Any, position: int) -> str:
    """Return a string or symbol as the key of a dict."""
    if value.__class__ is str:
        return str(value)
    if value.__class__ is Symbol:
        return str(value)
    raise wrong_type(name, "strings as keys", value, position)


def _require_dict(name: str, value: Any, position: int = 0) -> dict[str, Any]:
    if value.__class__ is dict:
        return dict(value)
    if value.__class__ is TaskResult:
        return fields_of(value)
    raise wrong_type(name, "a dict", value, position)


@built_in("dict", '(dict :key x ...) or (dict "key" x ...)', takes_keywords=True)
def make_dict(*pairs: Any, keywords: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Create a dict."""
    if len(pairs) % 2:
        raise program_error("wrong-arity", f"dict takes pairs of keys and values, not {len(pairs)} arguments")
    made = {_require_key("dict", pairs[at], at): pairs[at + 1] for at in range(0, len(pairs), 2)}
    return {**made, **(keywords or {})}


@built_in("get", "(get d key default)")
def get(value: Any, key: Any, default: Any = None) -> Any:
    """Return a value, an element or a field of a task result; else the default."""
    _require_parts("get", value)
    return part_of(value, str(key) if key.__class__ is Symbol else key, default)


@built_in("get-in", "(get-in d (list key ...))")
def get_in(value: Any, path: Any) -> Any:
    """Return the part at the end of the path, or nil."""
    path = as_list("get-in", path, 1)
    for key in path:
        value = part_of(value, str(key) if key.__class__ is Symbol else key)
    return value


def _require_parts(name: str, value: Any) -> None:
    if value is not None and value.__class__ not in (dict, list, TaskResult):
        raise wrong_type(name, "a dict, a list or a task result", value, 0)


@built_in("assoc", "(assoc d key x ...)", is_linear=True)
def assoc(value: Any, *pairs: Any) -> dict[str, Any]:
    """Return a dict with these values added."""
    if len(pairs) % 2:
        raise program_error(
            "wrong-arity", f"assoc takes pairs of keys and values, not {len(pairs)} arguments"
        )
    made = _require_dict("assoc", value) if value is not None else {}
    for at in range(0, len(pairs), 2):
        made[_require_key("assoc", pairs[at], at + 1)] = pairs[at + 1]
    return made


@built_in("dissoc", "(dissoc d key ...)", is_linear=True)
def dissoc(value: Any, *keys: Any) -> dict[str, Any]:
    """Return a dict without these keys."""
    made = _require_dict("dissoc", value)
    for position, key in enumerate(keys, 1):
        made.pop(_require_key("dissoc", key, position), None)
    return made


@built_in("keys", "(keys d)", is_linear=True)
def keys(value: Any) -> list[str]:
    """Return the keys, in order."""
    return list(_require_dict("keys", value))


@built_in("values", "(values d)", is_linear=True)
def values(value: Any) -> list[Any]:
    """Return the values, in order."""
    return list(_require_dict("values", value).values())


@built_in("items", "(items d)", is_linear=True)
def items(value: Any) -> list[list[Any]]:
    """Return a list of (key value)."""
    return [[key, part] for key, part in _require_dict("items", value).items()]


@built_in("merge", "(merge d ...)", is_linear=True)
def merge(*dicts: Any) -> dict[str, Any]:
    """Merge the dicts; the last value of a key counts."""
    made: dict[str, Any] = {}
    for position, value in enumerate(dicts):
        made.update(_require_dict("merge", value, position))
    return made


@built_in("has-key?", "(has-key? d key)")
def has_key(value: Any, key: Any) -> bool:
    """Return whether the dict has the key."""
    return _require_key("has-key?", key, 1) in _require_dict("has-key?", value)


@built_in("json-parse", "(json-parse s)", is_linear=True)
def json_parse(text: Any) -> Any:
    """Parse a JSON text, or the content of a task result."""
    if text.__class__ is TaskResult:
        text = text.content
    require_type("string", "json-parse", text)
    check_size("json-parse", len(text))
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise program_error("bad-value", f"json-parse: {error}") from None
    except RecursionError:
        raise program_error("bad-value", "json-parse: nested too deeply") from None
    check_finite(value)
    return value


@built_in("json-string", "(json-string x)", is_linear=True)
def json_string(value: Any) -> str:
    """Return the JSON text of a value."""
    return json_text(value)
