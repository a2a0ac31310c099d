"""Parser of data into syntax trees: expressions and calls, and helpers for all special forms."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from msgspec import Struct

from weft.language.ast import Apply, Datum, FunctionCall, Literal, Node, Quote, Symbol, Variable, begin
from weft.language.builtins import BUILT_IN_NAMES, SYSTEM_NAMESPACE
from weft.language.diagnostics import InvalidProgram, LanguageProblem
from weft.language.sexp.names import Constant, Data, Keyword, List, Name, keyword_text
from weft.language.sexp.reader import MAX_PROBLEMS
from weft.language.source import Span

Arguments = tuple[list[Data], list[tuple[Keyword, Data]]]
"""Positional arguments and keyword arguments."""


class SpecialForm(Struct, frozen=True):
    """A form with its own syntax."""

    shape: str
    """The syntax, for error messages and help."""
    build: "Callable[[Parser, List], Node]"
    least: int = 1
    most: int | None = None
    """How many items the form has, its name included; None: any number."""
    is_definition: bool = False
    """Whether it is only allowed at the top level or directly in a body."""


class FormError(Exception):
    """A form cannot be parsed. The parser notes the problem and continues with the next form."""

    def __init__(self, span: Span, code: str, message: str) -> None:
        super().__init__(message)
        self.found = [LanguageProblem(span, code, message)]


class TooManyProblems(Exception):
    """The limit of problems is reached, and parsing stops."""


_KEYWORDS_ARE_KEYS = BUILT_IN_NAMES - {"dict"}
"""Built-ins without keyword arguments: in their calls `:name` is a string, such as the key of a dict."""


class Parser:
    """Parses data into nodes and collects problems."""

    def __init__(self, forms: Mapping[str, SpecialForm]) -> None:
        self.problems: list[LanguageProblem] = []
        self._forms = forms

    # Problems

    def note(self, span: Span, code: str, message: str) -> None:
        """Add a problem. Raise TooManyProblems at the limit."""
        self._note_all([LanguageProblem(span, code, message)])

    def _note_all(self, found: Sequence[LanguageProblem]) -> None:
        self.problems.extend(found)
        if len(self.problems) >= MAX_PROBLEMS:
            raise TooManyProblems

    def attempt(self, read: "Callable[..., Any]", datum: Data, *more: Any) -> Any:
        """Return `read(self, datum, *more)`; if it fails, note the problems and return None."""
        try:
            return read(self, datum, *more)
        except (FormError, InvalidProgram) as error:
            self._note_all(error.found)
            return None

    def reject_form(self, form: List) -> NoReturn:
        """Raise FormError with the correct syntax of a special form."""
        name = head_of(form)
        raise FormError(form.span, "syntax-error", f"`{name}` is written {self._forms[name].shape}")

    # Expressions

    def expression(self, datum: Data, *, is_in_body: bool = False) -> Node:
        """Parse a datum as an expression; if it fails, note the problems and return a nil literal.

        Definitions are only allowed with `is_in_body`.
        """
        if type(datum) is List:
            return self._list(datum, is_in_body)
        if type(datum) is Name:
            return Variable(span=datum.span, name=datum.name, path=datum.path)
        if type(datum) is Constant:
            return Literal(span=datum.span, value=datum.value)
        shown = keyword_text(datum.name) if isinstance(datum, Keyword) else "this"
        message = f"`{shown}` is the name of an argument, but a value is expected here"
        self.note(datum.span, "syntax-error", message)
        return Literal(span=datum.span, value=None)

    def expressions(self, data: Sequence[Data]) -> tuple[Node, ...]:
        """Parse data as expressions; definitions are not allowed."""
        return tuple([self.expression(one) for one in data])

    def body(self, data: Sequence[Data], form: List) -> Node:
        """Parse expressions and definitions into one node. Raise FormError if `data` is empty."""
        if not data:
            self.reject_form(form)
        return begin([self.expression(one, is_in_body=True) for one in data], data[0].span)

    def _list(self, form: List, is_in_body: bool) -> Node:
        if not form.items:
            return Quote(span=form.span, datum=())
        special = self._forms.get(head_of(form))
        if special is None:
            return self._call(form)
        if special.is_definition and not is_in_body:
            message = f"`{head_of(form)}` is only allowed at the top level or directly in a body"
            self.note(form.span, "syntax-error", message)
        try:
            if len(form.items) < special.least or (special.most and len(form.items) > special.most):
                self.reject_form(form)
            return special.build(self, form)
        except (FormError, InvalidProgram) as error:
            self._note_all(error.found)
            return Literal(span=form.span, value=None)

    def _call(self, form: List) -> Node:
        head = form.items[0]
        if type(head) is Constant or type(head) is Keyword:
            message = "a call begins with a name or another call; a list of values is written (list 1 2)"
            self.note(head.span, "syntax-error", message)
            return Literal(span=form.span, value=None)
        items = form.items[1:]
        if type(head) is Name and head.name in _KEYWORDS_ARE_KEYS and not head.path:
            items = [Constant(item.span, item.name) if type(item) is Keyword else item for item in items]
        data, named = self.arguments(items)
        args = self.expressions(data)
        keywords = tuple([(keyword.name, self.expression(value)) for keyword, value in named])
        if type(head) is Name and not head.path:
            return FunctionCall(span=form.span, func_name=head.name, args=args, keywords=keywords)
        return Apply(span=form.span, function=self.expression(head), args=args, keywords=keywords)

    # Parts of forms

    def arguments(self, data: Sequence[Data]) -> Arguments:
        """Split data into positional and keyword arguments; note duplicate keywords and missing values."""
        positional: list[Data] = []
        named: dict[str, tuple[Keyword, Data]] = {}
        position = 0
        while position < len(data):
            datum = data[position]
            position += 1
            if type(datum) is not Keyword:
                positional.append(datum)
            elif position == len(data) or type(data[position]) is Keyword:
                self.note(datum.span, "syntax-error", f"`{keyword_text(datum.name)}` has no value after it")
            else:
                if datum.name in named:
                    self.note(datum.span, "duplicate-name", f"`{keyword_text(datum.name)}` is given twice")
                named[datum.name] = datum, data[position]
                position += 1
        return positional, list(named.values())

    def defined_name(self, datum: Data, form: List) -> str:
        """Parse a name that a form defines. Note a name that is a built-in, a special form or a weft tool."""
        name = self.local_name(datum, form)
        if name in BUILT_IN_NAMES:
            self._note_reserved(datum, name, "built-in function")
        elif name.startswith(SYSTEM_NAMESPACE):
            self._note_reserved(datum, name, "name of weft's own tools")
        return name

    def local_name(self, datum: Data, form: List) -> str:
        """Parse a name that a form binds locally; it may shadow a built-in, but not a special form."""
        if not isinstance(datum, Name):
            self.reject_form(form)
        if datum.path:
            message = f"`{datum.text}` is a path, and a path cannot be bound; |{datum.text}| is one name"
            raise FormError(datum.span, "syntax-error", message)
        if datum.name in self._forms:
            self._note_reserved(datum, datum.name, "special form")
        return datum.name

    def _note_reserved(self, datum: Data, name: str, kind: str) -> None:
        message = f"`{name}` is a {kind} and cannot be bound; choose another name"
        self.note(datum.span, "reserved-name", message)

    def quoted(self, datum: Data) -> Datum:
        """Return the value of a quoted datum."""
        if type(datum) is List:
            return tuple([self.quoted(one) for one in datum.items])
        if type(datum) is Constant:
            return datum.value
        return Symbol(datum.text if type(datum) is Name else f":{datum.name}")  # type: ignore[union-attr]


def head_of(form: List) -> str:
    """Return the name that a form begins with; "" for a path, a barred name or anything else."""
    head = form.items[0] if form.items else None
    return head.name if type(head) is Name and not head.path and not head.is_barred else ""
