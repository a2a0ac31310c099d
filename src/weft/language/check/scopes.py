"""Scopes of the static check: which names are bound, and which names functions need when they are called.

A frame models an environment of the evaluator; it contains a name once the name is certainly bound. A routine
models a function or a template: its code runs later than the code around it. A name that it uses from an
enclosing frame is a need, checked when the routine is used. So functions may call functions that are defined
below them, and a call before a definition is still reported.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain

from msgspec import Struct

from weft.language.ast import Lambda, Node, Template, Variable
from weft.language.builtins import RESERVED_NAMES, is_reserved
from weft.language.diagnostics import Findings
from weft.language.sexp.program import why_no_value
from weft.language.source import Span

MAX_EPOCHS = 1_000
"""Highest `Bindings.epoch`. Each rebinding starts a new epoch, in which functions are checked again when
used; after this many they are not. Without the limit, a hostile program could force a check for each use."""

MAX_LOOKUPS = 3_000_000
"""Most needs resolved in one check; this many take a few seconds. An ordinary program of 16 MB has a tenth as
many. Without the limit, deeply nested functions that need thousands of names would take minutes."""


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
        """For each argument that is a plain name bound to the result of a task or call: its cell when this
        call was visited."""
        if frame is not None:
            for node in (*args, *(value for _, value in keywords)):
                cell = frame.find(node.name) if isinstance(node, Variable) and not node.path else None
                if cell is not None and cell.producer is not None and isinstance(node, Variable):
                    self.result_cells[node.name] = cell


class Need(Struct, frozen=True, eq=False):
    """A use of a name, which is looked up from `frame` outwards."""

    frame: "Frame"
    origin: "Frame"
    """The frame of the code that uses the name."""
    name: str
    span: Span
    call: Call | None = None
    boundary: "Frame | None" = None
    """None: an unbound name is a problem. A frame: an unbound name is an input of the program, unless it
    resembles a name bound in a frame inside `boundary`."""

    def moved_to(self, frame: "Frame") -> "Need":
        """Return the same use, looked up from an outer frame."""
        return Need(frame, self.origin, self.name, self.span, self.call, self.boundary)


class Cell(Struct, eq=False):
    """A binding: what is known of the value, and the needs of the value if it is a function or template."""

    value: Node | None = None
    """A Lambda, a Template or a constant; None: unknown."""
    producer: Producer | None = None
    """The task or call that produces the value; None: unknown."""
    needs: list[Need] = []
    is_used: bool = False
    is_replaced: bool = False
    """Whether the same frame binds the name again later."""
    epoch: int = -1
    """`Bindings.epoch` when the needs were last resolved."""


class Routine(Struct, eq=False):
    """The code of a function, of a template or of the whole program."""

    needs: list[Need] = []
    seen: set[tuple[int, str, int]] = set()
    """Keys of `needs`, to prevent duplicates: id of the frame, name, id of the call or location."""
    functions: list[Cell] = []
    """Functions defined in the routine; their needs are resolved when it ends, used or not."""


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
        """If this is the frame of a task that does not inherit names: the frame around that task."""
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

    def names(self, around: "Frame | None" = None) -> Iterable[str]:
        """Yield the names bound in this frame and in the enclosing frames, up to but not in `around`."""
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
"""The bindings that a branch made, by id of the frame and name."""


class Bindings:
    """Binds names, and undoes bindings that only some branches make."""

    def __init__(self) -> None:
        self._undo_log: list[tuple[Frame, str, Cell | None]] = []
        self._lookups = 0
        self.epoch = 0
        """Incremented when a name is rebound or a branch undone, up to MAX_EPOCHS or half of MAX_LOOKUPS."""
        self.possibly_bound: set[str] = set()
        """Names that only some branches bind."""

    def bind(self, frame: Frame, name: str, cell: Cell) -> None:
        before = frame.get(name)
        if before is not None:
            before.is_replaced = True
            cell.is_used = before.is_used  # a use of the old binding counts as a use of the name
            self._advance_epoch()
        self._undo_log.append((frame, name, before))
        frame[name] = cell

    def mark(self) -> int:
        """Return a mark for `undo`: the current length of the undo log."""
        return len(self._undo_log)

    def undo(self, mark: int, around: Frame) -> WriteSet:
        """Undo and return the bindings made since `mark` in `around`, the frame of the branch.

        Inner frames of the branch keep their names: calls in them are checked at the end of the program.
        """
        changes: WriteSet = {}
        if len(self._undo_log) == mark:
            return changes
        for frame, name, before in reversed(self._undo_log[mark:]):
            if frame is not around:
                continue
            changes.setdefault((id(frame), name), (frame, name, frame[name]))
            if before is None:
                del frame[name]
            else:
                frame[name] = before
        del self._undo_log[mark:]
        self._advance_epoch()
        return changes

    def join(self, branches: list[WriteSet]) -> None:
        """Bind as unknown the names that all branches bind or some rebind; note others as possibly bound."""
        for key, (frame, name, _) in {key: one for each in branches for key, one in each.items()}.items():
            if name in frame or all(key in each for each in branches):
                self.bind(frame, name, _merge_cells([each[key][2] for each in branches if key in each]))
            else:
                self.possibly_bound.add(name)

    def unite(self, branches: list[WriteSet]) -> None:
        """Bind the names of all branches, which are all evaluated but in no certain order."""
        for each in branches:
            for frame, name, cell in each.values():
                self.bind(frame, name, cell)

    def count_lookup(self) -> None:
        """Count the resolution of one need. Raise TooComplex beyond MAX_LOOKUPS."""
        self._lookups += 1
        if self._lookups > MAX_LOOKUPS:
            raise TooComplex

    def _advance_epoch(self) -> None:
        if self.epoch < MAX_EPOCHS and self._lookups < MAX_LOOKUPS // 2:
            self.epoch += 1


def _merge_cells(cells: list[Cell]) -> Cell:
    """Merge the bindings of a name from alternative branches: unknown value, the needs of all of them."""
    needs = [need for cell in cells for need in cell.needs]
    return Cell(needs=needs, is_used=any(cell.is_used for cell in cells))


def is_built_in(name: str, frame: Frame) -> bool:
    """Return whether a name refers to a built-in in a frame."""
    return name in RESERVED_NAMES and frame.find(name) is None


class Names:
    """The scopes of one program, and the uses of unbound names in it."""

    def __init__(
        self,
        findings: Findings,
        templates: Mapping[str, Template],
        check_call: Callable[[Need, Cell], None],
        check_tool: Callable[[str, Span], None],
    ) -> None:
        """Create the scopes; the functions check calls of a bound name, and of a tool by its name."""
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
        self._unbound: dict[tuple[int, str], Need] = {}

    # Uses

    def use(
        self, frame: Frame, name: str, span: Span, call: Call | None = None, *, boundary: Frame | None = None
    ) -> None:
        """Resolve a use of a name by code in a frame."""
        if not is_built_in(name, frame):
            self.use_binding(Need(frame, frame, name, span, call, boundary), frame.routine)

    def use_binding(self, need: Need, routine: Routine) -> None:
        """Resolve a use by code of `routine`. The name is never taken as a built-in."""
        cell = self._resolve(need, routine, is_indirect=False)
        if cell is not None:
            self._resolve_needs(cell, routine)

    def _resolve_needs(self, cell: Cell, routine: Routine) -> None:
        """Resolve the needs of the function in a cell, and of all functions that it uses in turn."""
        pending = [cell]
        while pending:
            one = pending.pop()
            if one.epoch == self.bindings.epoch:
                continue
            one.epoch = self.bindings.epoch
            for need in one.needs:
                self.bindings.count_lookup()
                found = self._resolve(need, routine, is_indirect=True)
                if found is not None:
                    pending.append(found)

    def _resolve(self, need: Need, routine: Routine, *, is_indirect: bool) -> Cell | None:
        """Look up a need from code of `routine`. Return the cell if `routine` binds it to a value with needs.

        `is_indirect`: the need is that of a function which `routine` uses, not of its own code.
        """
        name = need.name
        frame: Frame | None = need.frame
        while frame is not None and frame.routine is routine:
            cell = frame.get(name)
            if cell is not None:
                cell.is_used = True
                if need.call is not None and cell.value is not None:
                    self._check_call(need, cell)
                return cell if cell.needs else None
            frame = frame.outer
        if frame is None:
            self._unbound.setdefault((id(need.span), name), need)
        elif is_indirect:
            self._propagate(need, frame, routine)
        else:
            self._defer(need, frame, routine)
        return None

    def _propagate(self, need: Need, frame: Frame, routine: Routine) -> None:
        """Add to `routine` a need of a function that it uses, for a name from around `routine`."""
        key = id(frame), need.name, id(need.call or need.span)
        if key not in routine.seen:
            routine.seen.add(key)
            routine.needs.append(need.moved_to(frame))

    def _defer(self, need: Need, frame: Frame, routine: Routine) -> None:
        """Add to `routine` a need for a name from around it, unless that is bound to data and not called."""
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

    # Bindings

    def bind(self, frame: Frame, name: str, cell: Cell | None = None) -> None:
        """Bind a name, which may shadow a built-in; without a cell, its value is unknown."""
        cell = cell or Cell()
        self.bindings.bind(frame, name, cell)
        if cell.needs:
            frame.routine.functions.append(cell)

    def note_reserved(self, name: str, span: Span) -> bool:
        """Return whether a name is reserved, so that no program can define it; if so, note a problem."""
        if not is_reserved(name):
            return False
        message = f"'{name}' is built in and cannot be defined as anything else; choose another name"
        self._findings.note(span, "reserved-name", message)
        return True

    def close(self, routine: Routine, since: int = 0) -> None:
        """Resolve the needs of the functions of a routine or branch, from index `since` on, when it ends."""
        for cell in routine.functions[since:]:
            if not cell.is_replaced:
                self._resolve_needs(cell, routine)
        del routine.functions[since:]

    # Report

    def report(self) -> None:
        """Note uses of unbound names; called once, after the walk."""
        for need in self._unbound.values():
            why = self._explain_unbound(need)
            if need.call is not None and ":" in need.name and why is None:
                self._check_tool(need.name, need.span)
                continue
            if need.boundary is None or why is not None:
                self._findings.note(need.span, "unbound-name", why or self._unbound_message(need))
                continue
            similar = self._findings.near_miss(need.name, need.origin.names(need.boundary))
            if similar is None:
                self.inputs.setdefault(need.name, need.span)
                continue
            self.misspelt.setdefault(need.name, need.span)
            otherwise = "make it an input of the task"
            if need.boundary is self.templates:
                otherwise = "choose another name for the input"
            message = f"'{need.name}' is not bound; did you mean '{similar}'? If not, {otherwise}"
            self._findings.note(need.span, "unbound-name", message)

    def _unbound_message(self, need: Need) -> str:
        name = need.name
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
