"""Names and what they are bound to: every use is resolved here, now or when the routine it is in is used."""

from collections.abc import Callable, Mapping
from itertools import chain

from weft.language.builtin_names import RESERVED_NAMES, is_reserved
from weft.language.check.findings import Findings
from weft.language.check.scopes import Bindings, Call, Cell, Frame, Need, Routine
from weft.language.sexp.program import why_no_value
from weft.language.spans import Span
from weft.language.tree import Lambda, Template

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
