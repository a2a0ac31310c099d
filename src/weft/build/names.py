"""Names that a program may not define."""

from weft.language.builtin_names import is_reserved
from weft.language.problems import refuse
from weft.language.sexp.program import SPECIAL_FORMS
from weft.language.spans import Span


def definable(name: str, span: Span) -> str:
    """The name; raises InvalidProgram when it is that of a form or of something built in."""
    kind = "a form" if name in SPECIAL_FORMS else "built in" if is_reserved(name) else None
    if kind is not None:
        raise refuse(span, "reserved-name", f"'{name}' is {kind} and cannot be defined; choose another name")
    return name
