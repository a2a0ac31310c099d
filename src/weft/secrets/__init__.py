"""Values that nobody is to read in a log, an error, a record or an answer."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.secrets.cutting import cut as cut
    from weft.secrets.cutting import cut_middle as cut_middle
    from weft.secrets.cutting import without_half as without_half
    from weft.secrets.marked import Secret as Secret
    from weft.secrets.marked import secret as secret
    from weft.secrets.references import SecretNotAllowed as SecretNotAllowed
    from weft.secrets.references import SecretSettings as SecretSettings
    from weft.secrets.references import has_references as has_references
    from weft.secrets.references import masked as masked
    from weft.secrets.references import resolved as resolved
    from weft.secrets.registry import MIN_CHARACTERS as MIN_CHARACTERS
    from weft.secrets.registry import Registry as Registry
    from weft.secrets.registry import forget_all as forget_all
    from weft.secrets.registry import is_any as is_any
    from weft.secrets.registry import redact as redact
    from weft.secrets.registry import redact_json as redact_json
    from weft.secrets.registry import redact_struct as redact_struct
    from weft.secrets.registry import register as register
    from weft.secrets.variables import is_secret_name as is_secret_name
    from weft.secrets.variables import register_environment as register_environment

_NAMES = {
    "cutting": ("cut", "cut_middle", "without_half"),
    "marked": ("Secret", "secret"),
    "references": ("SecretNotAllowed", "SecretSettings", "has_references", "masked", "resolved"),
    "registry": (
        "MIN_CHARACTERS",
        "Registry",
        "forget_all",
        "is_any",
        "redact",
        "redact_json",
        "redact_struct",
        "register",
    ),
    "variables": ("is_secret_name", "register_environment"),
}
_PLACES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Imported on first use: every command imports some part of this room, and few need the others."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"weft.secrets.{_PLACES[name]}"), name)
