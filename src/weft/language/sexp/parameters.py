"""Parameters of templates: `name`, `(name default)`, `(name type)`, `(name type default)`."""

from typing import Any

from msgspec import UNSET

from weft.language.sexp.data import Constant, Data, Keyword, List, Name
from weft.language.sexp.field_values import a_shape
from weft.language.sexp.former import Former, Refused
from weft.language.task_fields import Parameter

_SHAPE = "a parameter is written name, (name default), (name type) or (name type default)"


def parameters(former: Former, datum: Data, form: List) -> tuple[Parameter, ...]:
    """The parameters of a template; a name may be used once."""
    if not isinstance(datum, List) or datum.is_prefix:
        former.misshapen(form)
    found = [former.attempt(lambda former, one: _parameter(former, one, form), one) for one in datum.items]
    seen: set[str] = set()
    for written, parameter in zip(datum.items, found, strict=True):
        if parameter is not None and parameter.name in seen:
            former.note(written.span, "duplicate-name", f"the parameter `{parameter.name}` is there twice")
        seen.add(parameter.name if parameter is not None else "")
    return tuple(one for one in found if one is not None)


def _parameter(former: Former, datum: Data, form: List) -> Parameter:
    if isinstance(datum, Name):
        return Parameter(former.bound_name(datum, form))
    if not isinstance(datum, List) or datum.is_prefix or len(datum.items) not in {2, 3}:
        raise Refused(datum.span, "syntax-error", _SHAPE)
    name = former.bound_name(datum.items[0], form)
    if len(datum.items) == 3:
        return Parameter(name, _type(former, datum.items[1]), constant(datum.items[2]))
    if isinstance(datum.items[1], Name):
        return Parameter(name, _type(former, datum.items[1]), UNSET)
    return Parameter(name, None, constant(datum.items[1]))


def _type(former: Former, datum: Data) -> str:
    if isinstance(datum, Name):
        return datum.text
    shape: str = a_shape("the type of a parameter")(former, datum)
    return shape


def constant(datum: Data) -> Any:
    """The JSON value that a default is: a constant, `(list ...)` or `(dict :key value ...)`."""
    if isinstance(datum, Constant):
        return datum.value
    if isinstance(datum, List):
        if not datum.items:
            return []
        match datum.items[0]:
            case Name(text="list", is_barred=False):
                return [constant(one) for one in datum.items[1:]]
            case Name(text="dict", is_barred=False):
                return _constant_dict(datum)
    message = "a default is a number, a string, true, false, nil, (list ...) or (dict :key ...) of those"
    raise Refused(datum.span, "bad-value", message)


def _constant_dict(datum: List) -> dict[str, Any]:
    keys, values = datum.items[1::2], datum.items[2::2]
    if len(keys) != len(values):
        raise Refused(datum.span, "bad-value", "a dict is written (dict :key value ...): a value is missing")
    return {_key(key): constant(value) for key, value in zip(keys, values, strict=True)}


def _key(datum: Data) -> str:
    if isinstance(datum, Keyword):
        return datum.name
    if isinstance(datum, Constant) and isinstance(datum.value, str):
        return datum.value
    raise Refused(datum.span, "bad-value", "a key of a dict is written :key or as a string")
