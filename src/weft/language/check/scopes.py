"""Scopes of the static check: which names are bound, and which names functions need when they are called.

A frame models an environment of the evaluator; it contains a name once the name is certainly bound. A routine
models a function or a template: its code runs later than the code around it. A name that it uses from an
enclosing frame is a need, checked when the routine is used. So functions may call functions that are defined
below them, and a call before a definition is still reported.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

from weft.language.ast import Lambda, Node, Template, Variable
from weft.language.builtins import RESERVED_NAMES, is_reserved
from weft.language.diagnostics import Findings
from weft.language.sexp.program import why_no_value
from weft.language.source import Span

MAX_EPOCHS = 1_000
"""How often functions are checked again after a rebinding. Without it, a hostile program could force a new
search for each use."""

MAX_LOOKUPS = 3_000_000
"""How many needs of functions are resolved, a few seconds in all; a handwritten program of 16 MB takes a
tenth. Deeply nested functions that need thousands of names would take minutes."""


class TooComplex(Exception):
    """Functions use too many names from enclosing scopes to be checked."""


Producer = tuple[Node, "Frame"]
"""A task or call, and the frame in which it is evaluated."""


class Call:
    """The arguments and keywords of a call; None stands for an unknown argument."""

    __slots__ = ("args", "keywords", "result_cells", "span")

    def __init__(
        self,
        span: Span,
        args: tuple[Node | None, ...],
        keywords: tuple[tuple[str, Node | None], ...] = (),
        frame: "Frame | None" = None,
    ) -> None:
        self.span = span
        self.args = args
        self.keywords = keywords
        self.result_cells: dict[str, Cell] = {}
        """Cells of those arguments that were bound to results of tasks when the call was visited."""
        if frame is not None:
            for node in (*args, *(value for _, value in keywords)):
                cell = frame.find(node.name) if isinstance(node, Variable) and not node.path else None
                if cell is not None and cell.producer is not None and isinstance(node, Variable):
                    self.result_cells[node.name] = cell


class Need:
    """A use of a name, by code in `frame` or by a routine that was defined there."""

    __slots__ = ("boundary", "call", "frame", "name", "origin", "span")

    def __init__(
        self,
        frame: "Frame",
        name: str,
        span: Span,
        call: Call | None,
        *,
        boundary: "Frame | None",
        origin: "Frame | None" = None,
    ) -> None:
        self.frame = frame
        self.origin = frame if origin is None else origin
        """The frame of the code that uses the name."""
        self.name = name
        self.span = span
        self.call = call
        self.boundary = boundary
        """If the name is unbound it is an input of the program, unless it looks like a misspelling of a name
        bound inside this frame. None: it cannot be an input."""

    def moved_to(self, frame: "Frame") -> "Need":
        """Return the same use, looked up from an outer frame."""
        return Need(frame, self.name, self.span, self.call, boundary=self.boundary, origin=self.origin)


class Cell:
    """A binding: what is known of the value, and its needs if it is a routine."""

    __slots__ = ("epoch", "is_replaced", "is_used", "needs", "producer", "value")

    def __init__(self, value: Node | None = None) -> None:
        self.value = value
        """A Lambda, a Template or a constant; None: unknown."""
        self.producer: Producer | None = None
        """The task or call that produces the value; None: unknown."""
        self.needs: list[Need] = []
        self.is_used = False
        self.is_replaced = False
        """Whether the same frame binds the name again later."""
        self.epoch = -1
        """The epoch of the bindings in which the needs were last resolved."""


class Routine:
    """Code that runs when it is called."""

    __slots__ = ("functions", "needs", "seen")

    def __init__(self) -> None:
        self.needs: list[Need] = []
        self.seen: set[tuple[int, str, int]] = set()
        """Keys of `needs`, without duplicates: the frame, the name, and the call or location."""
        self.functions: list[Cell] = []
        """Functions defined in the routine. They are checked when it ends, in case they were not used."""


class Frame(dict[str, Cell]):
    """Names that are certainly bound, and the enclosing frame."""

    __slots__ = ("hidden", "is_arguments", "isolated_from", "outer", "routine")

    def __init__(self, outer: "Frame | None", routine: Routine, names: Iterable[str] = ()) -> None:
        super().__init__()
        for name in names:
            self[name] = Cell()
        self.outer = outer
        self.routine = routine
        self.isolated_from: Frame | None = None
        """The frame around the task of this frame, if the task does not inherit its names."""
        self.is_arguments = False
        """Whether the frame binds the parameters of a template; the body always sees them."""
        self.hidden: Mapping[str, str] = {}
        """Names that an author may expect to be bound here, with the reason why they are not."""

    def find(self, name: str) -> Cell | None:
        """Return the innermost binding of a name, or None."""
        frame: Frame | None = self
        while frame is not None:
            cell = frame.get(name)
            if cell is not None:
                return cell
            frame = frame.outer
        return None

    def names(self) -> Iterable[str]:
        """Yield the names bound in this frame and all enclosing frames."""
        frame: Frame | None = self
        while frame is not None:
            yield from frame
            frame = frame.outer

    def names_inside(self, around: "Frame") -> Iterable[str]:
        """Yield the names bound in this frame and the enclosing frames inside `around`."""
        frame: Frame | None = self
        while frame is not None and frame is not around:
            yield from frame
            frame = frame.outer

    def explain_hidden(self, name: str) -> str:
        """Explain why a name is not bound here although it seems to be; "" if no reason is known."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.hidden:
                return frame.hidden[name]
            if frame.isolated_from is not None and frame.isolated_from.find(name) is not None:
                return "it is bound around the task, which inherits nothing from there: make it an input"
            frame = frame.outer
        return ""


WriteSet = dict[tuple[int, str], tuple[Frame, str, Cell]]
"""The bindings that a branch made."""


class Bindings:
    """Binds names, and undoes bindings that only some branches make."""

    def __init__(self) -> None:
        self._trail: list[tuple[Frame, str, Cell | None]] = []
        self._lookups = 0
        self.epoch = 0
        """Incremented whenever the meaning of a name may change."""
        self.possibly_bound: set[str] = set()
        """Names that only some branches bind."""

    def bind(self, frame: Frame, name: str, cell: Cell) -> None:
        before = frame.get(name)
        if before is not None:
            before.is_replaced = True
            cell.is_used = before.is_used
            self._advance_epoch()
        self._trail.append((frame, name, before))
        frame[name] = cell

    def mark(self) -> int:
        """Return the start of a branch, for `undo`."""
        return len(self._trail)

    def undo(self, mark: int, around: Frame) -> WriteSet:
        """Undo and return the bindings made since `mark` in `around`, the frame of the branch.

        Inner frames of the branch keep their names: calls in them are checked at the end of the program.
        """
        changes: WriteSet = {}
        if len(self._trail) == mark:
            return changes
        for frame, name, before in reversed(self._trail[mark:]):
            if frame is not around:
                continue
            changes.setdefault((id(frame), name), (frame, name, frame[name]))
            if before is None:
                del frame[name]
            else:
                frame[name] = before
        del self._trail[mark:]
        self._advance_epoch()
        return changes

    def join(self, branches: list[WriteSet]) -> None:
        """Bind the names that every branch binds or that were bound before; their values are uncertain."""
        for key, (frame, name, _) in {key: one for each in branches for key, one in each.items()}.items():
            if name in frame or all(key in each for each in branches):
                self.bind(frame, name, _any_of([each[key][2] for each in branches if key in each]))
            else:
                self.possibly_bound.add(name)

    def unite(self, branches: list[WriteSet]) -> None:
        """Bind the names of all branches, which are all evaluated but in no certain order."""
        for each in branches:
            for frame, name, cell in each.values():
                self.bind(frame, name, cell)

    def count_lookup(self) -> None:
        """Count a lookup of a need. Raise TooComplex at the limit."""
        self._lookups += 1
        if self._lookups > MAX_LOOKUPS:
            raise TooComplex

    def _advance_epoch(self) -> None:
        if self.epoch < MAX_EPOCHS and self._lookups < MAX_LOOKUPS // 2:
            self.epoch += 1


def _any_of(cells: list[Cell]) -> Cell:
    """Return the binding of a name that one of several branches made."""
    joined = Cell()
    joined.needs = [need for cell in cells for need in cell.needs]
    joined.is_used = any(cell.is_used for cell in cells)
    return joined


def call_with_count(count: int, span: Span) -> Call:
    """Return a call with `count` unknown arguments."""
    return Call(span, (None,) * count)


def call_from_node(node: Any, frame: Frame) -> Call:
    """Return the call of a FunctionCall or Apply node."""
    return Call(node.span, node.args, node.keywords, frame)


CallCheck = Callable[[Need, Cell], None]
"""Checks a call by name against the binding of the name."""

ToolCheck = Callable[[str, Span], None]
"""Checks a call of a tool."""


def is_built_in(name: str, frame: Frame) -> bool:
    """Return whether a name refers to a built-in in a frame."""
    return name in RESERVED_NAMES and frame.find(name) is None


class Names:
    """The scopes of one program, and the uses of unbound names in it."""

    def __init__(
        self,
        findings: Findings,
        templates: Mapping[str, Template],
        check_call: CallCheck,
        check_tool: ToolCheck,
    ) -> None:
        self.bindings = Bindings()
        self.program = Routine()
        self.templates = Frame(None, self.program)
        for name, template in templates.items():
            self.templates[name] = Cell(template)
        self.globals = Frame(self.templates, self.program)
        self.inputs: dict[str, Span] = {}
        """Inputs that the caller must pass, with the location of their first use."""
        self.misspelt: dict[str, Span] = {}
        """Names that could be inputs, but look like misspellings of names that their task binds."""
        self._findings = findings
        self._check_call = check_call
        self._check_tool = check_tool
        self._missing: dict[tuple[int, str], Need] = {}

    # Uses

    def use(
        self, frame: Frame, name: str, span: Span, call: Call | None = None, *, boundary: Frame | None = None
    ) -> None:
        """Resolve a use of a name by code in a frame."""
        if is_built_in(name, frame):
            return
        self.use_binding(frame, name, span, call, boundary=boundary)

    def use_binding(
        self, frame: Frame, name: str, span: Span, call: Call | None = None, *, boundary: Frame | None = None
    ) -> None:
        """Resolve a use of a name that cannot refer to a built-in."""
        routine = frame.routine
        cell = self._resolve(Need(frame, name, span, call, boundary=boundary), routine, is_later=False)
        if cell is not None:
            self._require(cell, routine)

    def use_template(self, name: str, span: Span, frame: Frame) -> None:
        """Resolve a use of a template, ignoring other bindings of its name."""
        need = Need(self.templates, name, span, None, boundary=None)
        cell = self._resolve(need, frame.routine, is_later=False)
        if cell is not None:
            self._require(cell, frame.routine)

    def _require(self, cell: Cell, routine: Routine) -> None:
        """Resolve the needs of a routine, and transitively the needs of the routines that it uses."""
        pending = [cell]
        while pending:
            one = pending.pop()
            if one.epoch == self.bindings.epoch:
                continue
            one.epoch = self.bindings.epoch
            for need in one.needs:
                self.bindings.count_lookup()
                found = self._resolve(need, routine, is_later=True)
                if found is not None:
                    pending.append(found)

    def _resolve(self, need: Need, routine: Routine, *, is_later: bool) -> Cell | None:
        """Resolve a need. Return its cell if the same routine binds the name to a value with needs."""
        name = need.name
        frame: Frame | None = need.frame
        while frame is not None and frame.routine is routine:
            cell = frame.get(name)
            if cell is not None:
                self._mark_used(need, cell)
                return cell if cell.needs else None
            frame = frame.outer
        if frame is None:
            self._missing.setdefault((id(need.span), name), need)
        elif is_later:
            self._propagate(need, frame, routine)
        else:
            self._defer(need, frame, routine)
        return None

    def _propagate(self, need: Need, frame: Frame, routine: Routine) -> None:
        """Add a need of an inner routine to this one, if the name comes from around both."""
        key = id(frame), need.name, id(need.call or need.span)
        if key not in routine.seen:
            routine.seen.add(key)
            routine.needs.append(need.moved_to(frame))

    def _defer(self, need: Need, frame: Frame, routine: Routine) -> None:
        """Add a need for a name from around the routine that is not bound yet, or is checked per call."""
        cell = frame.find(need.name)
        if cell is None:
            routine.needs.append(need.moved_to(frame))
            return
        cell.is_used = True
        key = id(frame), need.name, id(need.call)
        is_plain = not isinstance(cell.value, Lambda | Template) and need.call is None
        if (cell.needs or not is_plain) and key not in routine.seen:
            routine.seen.add(key)
            routine.needs.append(need.moved_to(frame))

    def _mark_used(self, need: Need, cell: Cell) -> None:
        cell.is_used = True
        if need.call is not None and cell.value is not None:
            self._check_call(need, cell)

    # Bindings

    def bind(self, frame: Frame, name: str, cell: Cell) -> None:
        """Bind a name, which may shadow a built-in."""
        self.bindings.bind(frame, name, cell)
        if cell.needs:
            frame.routine.functions.append(cell)

    def note_reserved(self, name: str, span: Span) -> bool:
        """Note a problem if a name cannot be defined, and return whether that is so."""
        if not is_reserved(name):
            return False
        message = f"'{name}' is built in and cannot be defined as anything else; choose another name"
        self._findings.note(span, "reserved-name", message)
        return True

    def close(self, routine: Routine, since: int = 0) -> None:
        """Resolve the needs of functions at the end of their routine or branch: they may be used now."""
        for cell in routine.functions[since:]:
            if not cell.is_replaced:
                self._require(cell, routine)
        del routine.functions[since:]

    # The end

    def report(self) -> None:
        """Note uses of unbound names; called once, after the walk."""
        for need in self._missing.values():
            if need.call is not None and ":" in need.name and self._explain_unbound(need) is None:
                self._check_tool(need.name, need.span)
                continue
            if need.boundary is None or self._explain_unbound(need) is not None:
                self._findings.note(need.span, "unbound-name", self._message(need))
                continue
            similar = self._findings.near_miss(need.name, need.origin.names_inside(need.boundary))
            if similar is None:
                self.inputs.setdefault(need.name, need.span)
                continue
            self.misspelt.setdefault(need.name, need.span)
            otherwise = "make it an input of the task"
            if need.boundary is self.templates:
                otherwise = "choose another name for the input"
            message = f"'{need.name}' is not bound; did you mean '{similar}'? If not, {otherwise}"
            self._findings.note(need.span, "unbound-name", message)

    def _message(self, need: Need) -> str:
        name = need.name
        why = self._explain_unbound(need)
        if why is not None:
            return why
        form = why_no_value(name)
        if form is not None:
            return f"'{name}' is not bound; {form}"
        hint = self._findings.nearest(name, self.templates)
        hint = hint or self._findings.nearest(name, chain(need.origin.names(), RESERVED_NAMES))
        return f"'{name}' is not bound{hint}"

    def _explain_unbound(self, need: Need) -> str | None:
        """Explain why a name that the program binds elsewhere is unbound; None: nothing binds it."""
        name = need.name
        hidden = need.origin.explain_hidden(name)
        if hidden:
            return f"'{name}' is not bound here; {hidden}"
        if need.origin.find(name) is not None:
            return f"'{name}' is used before it is defined"
        if name in self.bindings.possibly_bound:
            return f"'{name}' may be unbound: only some branches define it"
        return None
