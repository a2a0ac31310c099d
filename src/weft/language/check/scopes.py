"""Scopes as the checks see them: which names are certainly bound, and what functions need to be called.

A frame stands for an environment of the evaluator; a name is in it from when it is certainly bound. A routine
stands for a function or a template: the code in it runs later than the code around it. What it takes from
around it and is not bound yet is a need, looked at when the routine is used. So functions may call those
defined below them, and a call before a definition is still found.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from weft.language.spans import Span
from weft.language.tree import Node, Variable

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


Changes = dict[tuple[int, str], tuple[Frame, str, Cell]]
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

    def undo(self, mark: int, around: Frame) -> Changes:
        """Take back what was bound since the mark in the frame that the branch stands in; gives what it was.

        Frames that were made in the branch end with it. They keep their names: calls in them are looked at
        when the whole program is known.
        """
        changes: Changes = {}
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

    def join(self, branches: list[Changes]) -> None:
        """One of the branches was taken: bound is what all of them bind; what some replaced is uncertain."""
        for key, (frame, name, _) in {key: one for each in branches for key, one in each.items()}.items():
            if name in frame or all(key in each for each in branches):
                self.bind(frame, name, _any_of([each[key][2] for each in branches if key in each]))
            else:
                self.perhaps.add(name)

    def unite(self, branches: list[Changes]) -> None:
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
