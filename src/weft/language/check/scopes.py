"""Scopes of the static check: which names are bound, and what functions need when they are called.

A frame stands for an environment of the evaluator; a name is in it from when it is certainly bound. A routine
stands for a function or a template: the code in it runs later than the code around it. What it takes from
around it and is not bound yet is a need, looked at when the routine is used. So functions may call those
defined below them, and a call before a definition is still found.
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
"""How often verdicts on functions are taken back: a hostile program must not make each use a new search."""

MAX_LOOKS = 3_000_000
"""How often needs of functions are looked at, a few seconds in all; a program of 16 MB that people wrote
takes a tenth. Functions in functions in functions that need thousands of names would take minutes."""


class TooIntricate(Exception):
    """Functions need too much of each other to be followed."""


Made = tuple[Node, "Frame"]
"""A task or call, and the frame that it stands in."""


class Call:
    """How something is called: the arguments (None: it is not known which) and the keywords."""

    __slots__ = ("args", "keywords", "made", "span")

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
        self.made: dict[str, Cell] = {}
        """The names among the arguments that were bound to results of tasks when the call was reached."""
        if frame is not None:
            for node in (*args, *(value for _, value in keywords)):
                cell = frame.find(node.name) if isinstance(node, Variable) and not node.path else None
                if cell is not None and cell.made is not None and isinstance(node, Variable):
                    self.made[node.name] = cell


class Need:
    """A use of a name: by code in `frame`, or by a routine that was made there."""

    __slots__ = ("call", "frame", "name", "origin", "outside", "span")

    def __init__(
        self,
        frame: "Frame",
        name: str,
        span: Span,
        call: Call | None,
        *,
        outside: "Frame | None",
        origin: "Frame | None" = None,
    ) -> None:
        self.frame = frame
        self.origin = frame if origin is None else origin
        """Where the code is that uses the name."""
        self.name = name
        self.span = span
        self.call = call
        self.outside = outside
        """Whoever runs the program may pass the name, unless it is nearly one that is bound inside this
        frame; None: nobody may."""

    def seen_from(self, frame: "Frame") -> "Need":
        """The same use, by a routine further out."""
        return Need(frame, self.name, self.span, self.call, outside=self.outside, origin=self.origin)


class Cell:
    """A binding: what is known of the value, and what the value needs when it is a routine."""

    __slots__ = ("epoch", "is_replaced", "is_used", "made", "needs", "value")

    def __init__(self, value: Node | None = None) -> None:
        self.value = value
        """A Lambda, a Template or a constant; None: it may be anything."""
        self.made: Made | None = None
        """The task or call whose result it is; None: it may be another value."""
        self.needs: list[Need] = []
        self.is_used = False
        self.is_replaced = False
        """By a later definition of the same name in the same frame."""
        self.epoch = -1
        """When its needs were last found to be met."""


class Routine:
    """Code that runs when it is called."""

    __slots__ = ("functions", "needs", "seen")

    def __init__(self) -> None:
        self.needs: list[Need] = []
        self.seen: set[tuple[int, str, int]] = set()
        """Needs that are there already: the frame, the name, and the place if that matters."""
        self.functions: list[Cell] = []
        """Functions that were defined in it, to be looked at when it ends: nobody may have used them."""


class Frame(dict[str, Cell]):
    """Names that are certainly bound, and the frame around."""

    __slots__ = ("cut", "hidden", "is_arguments", "outer", "routine")

    def __init__(self, outer: "Frame | None", routine: Routine, names: Iterable[str] = ()) -> None:
        super().__init__()
        for name in names:
            self[name] = Cell()
        self.outer = outer
        self.routine = routine
        self.cut: Frame | None = None
        """Where the task stands that this frame is inside, when it does not inherit from there."""
        self.is_arguments = False
        """Whether it binds the parameters of a template: its body sees them whatever it inherits."""
        self.hidden: Mapping[str, str] = {}
        """Names that an author may believe to be bound here, and why they are not."""

    def find(self, name: str) -> Cell | None:
        """The innermost binding of a name."""
        frame: Frame | None = self
        while frame is not None:
            cell = frame.get(name)
            if cell is not None:
                return cell
            frame = frame.outer
        return None

    def names(self) -> Iterable[str]:
        """All names that are bound here and around."""
        frame: Frame | None = self
        while frame is not None:
            yield from frame
            frame = frame.outer

    def names_inside(self, around: "Frame") -> Iterable[str]:
        """The names that are bound here and around, up to a frame."""
        frame: Frame | None = self
        while frame is not None and frame is not around:
            yield from frame
            frame = frame.outer

    def why_hidden(self, name: str) -> str:
        """Why a name is not bound here that seems to be; empty when there is nothing to say."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.hidden:
                return frame.hidden[name]
            if frame.cut is not None and frame.cut.find(name) is not None:
                return "it is bound around the task, which inherits nothing from there: make it an input"
            frame = frame.outer
        return ""


WriteSet = dict[tuple[int, str], tuple[Frame, str, Cell]]
"""What a branch bound."""


class Bindings:
    """Binds names, and takes back what only some branches bind."""

    def __init__(self) -> None:
        self._trail: list[tuple[Frame, str, Cell | None]] = []
        self._looks = 0
        self.epoch = 0
        """Rises whenever a name may mean something else than before."""
        self.perhaps: set[str] = set()
        """Names that only some branches bind."""

    def bind(self, frame: Frame, name: str, cell: Cell) -> None:
        """Bind a name in a frame."""
        before = frame.get(name)
        if before is not None:
            before.is_replaced = True
            cell.is_used = before.is_used
            self._turn()
        self._trail.append((frame, name, before))
        frame[name] = cell

    def mark(self) -> int:
        """Where a branch begins."""
        return len(self._trail)

    def undo(self, mark: int, around: Frame) -> WriteSet:
        """Take back what was bound since the mark in the frame that the branch stands in; gives what it was.

        Frames that were made in the branch end with it. They keep their names: calls in them are looked at
        when the whole program is known.
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
        self._turn()
        return changes

    def join(self, branches: list[WriteSet]) -> None:
        """One of the branches was taken: bound is what all of them bind; what some replaced is uncertain."""
        for key, (frame, name, _) in {key: one for each in branches for key, one in each.items()}.items():
            if name in frame or all(key in each for each in branches):
                self.bind(frame, name, _any_of([each[key][2] for each in branches if key in each]))
            else:
                self.perhaps.add(name)

    def unite(self, branches: list[WriteSet]) -> None:
        """All of the branches were taken, in no certain order."""
        for each in branches:
            for frame, name, cell in each.values():
                self.bind(frame, name, cell)

    def look(self) -> None:
        """Count a look at a need; raises TooIntricate at the limit."""
        self._looks += 1
        if self._looks > MAX_LOOKS:
            raise TooIntricate

    def _turn(self) -> None:
        if self.epoch < MAX_EPOCHS and self._looks < MAX_LOOKS // 2:
            self.epoch += 1


def _any_of(cells: list[Cell]) -> Cell:
    """The binding of a name that one of several branches bound."""
    joined = Cell()
    joined.needs = [need for cell in cells for need in cell.needs]
    joined.is_used = any(cell.is_used for cell in cells)
    return joined


def calls_with(count: int, span: Span) -> Call:
    """A call with so many arguments, whatever they are."""
    return Call(span, (None,) * count)


def call_of(node: Any, frame: Frame) -> Call:
    """Return the call that a FunctionCall or Apply makes in a frame."""
    return Call(node.span, node.args, node.keywords, frame)


CallCheck = Callable[[Need, Cell], None]
"""Looks at a call of what is known under a name."""

ToolCheck = Callable[[str, Span], None]
"""Looks at a call of a tool."""


def is_built_in(name: str, frame: Frame) -> bool:
    """Whether a name means a built-in in a frame."""
    return name in RESERVED_NAMES and frame.find(name) is None


class Names:
    """The scopes of one program, and the uses of names in it that nothing binds."""

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
        """What whoever runs the program must pass, and where it is first used."""
        self.misspelt: dict[str, Span] = {}
        """Names that could be inputs, and are nearly those of something that their task binds."""
        self._findings = findings
        self._check_call = check_call
        self._check_tool = check_tool
        self._missing: dict[tuple[int, str], Need] = {}

    # Uses

    def use(
        self, frame: Frame, name: str, span: Span, call: Call | None = None, *, outside: Frame | None = None
    ) -> None:
        """A name is used by code in the frame."""
        if is_built_in(name, frame):
            return
        self.use_binding(frame, name, span, call, outside=outside)

    def use_binding(
        self, frame: Frame, name: str, span: Span, call: Call | None = None, *, outside: Frame | None = None
    ) -> None:
        """A name is used, and no built-in is meant by it."""
        routine = frame.routine
        cell = self._resolve(Need(frame, name, span, call, outside=outside), routine, is_later=False)
        if cell is not None:
            self._require(cell, routine)

    def use_template(self, name: str, span: Span, frame: Frame) -> None:
        """A template is used by code in the frame, whatever else is called so there."""
        need = Need(self.templates, name, span, None, outside=None)
        cell = self._resolve(need, frame.routine, is_later=False)
        if cell is not None:
            self._require(cell, frame.routine)

    def _require(self, cell: Cell, routine: Routine) -> None:
        """What a routine needs must be bound by now, and what those need in turn."""
        rest = [cell]
        while rest:
            one = rest.pop()
            if one.epoch == self.bindings.epoch:
                continue
            one.epoch = self.bindings.epoch
            for need in one.needs:
                self.bindings.look()
                found = self._resolve(need, routine, is_later=True)
                if found is not None:
                    rest.append(found)

    def _resolve(self, need: Need, routine: Routine, *, is_later: bool) -> Cell | None:
        """The routine that a name is bound to, when it is one and is called from the same routine."""
        name = need.name
        frame: Frame | None = need.frame
        while frame is not None and frame.routine is routine:
            cell = frame.get(name)
            if cell is not None:
                self._found(need, cell)
                return cell if cell.needs else None
            frame = frame.outer
        if frame is None:
            self._missing.setdefault((id(need.span), name), need)
        elif is_later:
            self._hand_on(need, frame, routine)
        else:
            self._leave_open(need, frame, routine)
        return None

    def _hand_on(self, need: Need, frame: Frame, routine: Routine) -> None:
        """What a routine inside this one needs from around both is a need of this one too."""
        key = id(frame), need.name, id(need.call or need.span)
        if key not in routine.seen:
            routine.seen.add(key)
            routine.needs.append(need.seen_from(frame))

    def _leave_open(self, need: Need, frame: Frame, routine: Routine) -> None:
        """A name from around a routine: what is not bound yet, or needs more, is looked at when it runs."""
        cell = frame.find(need.name)
        if cell is None:
            routine.needs.append(need.seen_from(frame))
            return
        cell.is_used = True
        key = id(frame), need.name, id(need.call)
        is_plain = not isinstance(cell.value, Lambda | Template) and need.call is None
        if (cell.needs or not is_plain) and key not in routine.seen:
            routine.seen.add(key)
            routine.needs.append(need.seen_from(frame))

    def _found(self, need: Need, cell: Cell) -> None:
        cell.is_used = True
        if need.call is not None and cell.value is not None:
            self._check_call(need, cell)

    # Bindings

    def bind(self, frame: Frame, name: str, cell: Cell) -> None:
        """Bind a name, which may hide a built-in."""
        self.bindings.bind(frame, name, cell)
        if cell.needs:
            frame.routine.functions.append(cell)

    def is_reserved(self, name: str, span: Span) -> bool:
        """Whether a name cannot be defined; that is noted."""
        if not is_reserved(name):
            return False
        message = f"'{name}' is built in and cannot be defined as anything else; choose another name"
        self._findings.note(span, "reserved-name", message)
        return True

    def close(self, routine: Routine, since: int = 0) -> None:
        """The end of a routine or branch: functions that nobody used may be used from now on."""
        for cell in routine.functions[since:]:
            if not cell.is_replaced:
                self._require(cell, routine)
        del routine.functions[since:]

    # The end

    def report(self) -> None:
        """Note every use of a name that was not bound."""
        for need in self._missing.values():
            if need.call is not None and ":" in need.name and self._why_not(need) is None:
                self._check_tool(need.name, need.span)
                continue
            if need.outside is None or self._why_not(need) is not None:
                self._findings.note(need.span, "unbound-name", self._message(need))
                continue
            meant = self._findings.near_miss(need.name, need.origin.names_inside(need.outside))
            if meant is None:
                self.inputs.setdefault(need.name, need.span)
                continue
            self.misspelt.setdefault(need.name, need.span)
            otherwise = "make it an input of the task"
            if need.outside is self.templates:
                otherwise = "choose another name for the input"
            message = f"'{need.name}' is not bound; did you mean '{meant}'? If not, {otherwise}"
            self._findings.note(need.span, "unbound-name", message)

    def _message(self, need: Need) -> str:
        name = need.name
        why = self._why_not(need)
        if why is not None:
            return why
        form = why_no_value(name)
        if form is not None:
            return f"'{name}' is not bound; {form}"
        hint = self._findings.nearest(name, self.templates)
        hint = hint or self._findings.nearest(name, chain(need.origin.names(), RESERVED_NAMES))
        return f"'{name}' is not bound{hint}"

    def _why_not(self, need: Need) -> str | None:
        """Why a name is not bound that the program does bind somewhere; None: nothing is known of it."""
        name = need.name
        hidden = need.origin.why_hidden(name)
        if hidden:
            return f"'{name}' is not bound here; {hidden}"
        if need.origin.find(name) is not None:
            return f"'{name}' is used before it is defined"
        if name in self.bindings.perhaps:
            return f"'{name}' is perhaps not bound: it is defined in some branches only"
        return None
