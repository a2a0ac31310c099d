"""Texts of programs whose names are mostly bound and whose calls are mostly right; now and then one is not.

Functions have names of their own (f, g, h), so that no function hides in a value: every call can be known.
"""

from hypothesis import strategies as st

VALUES = ("a", "b", "c")
FUNCTIONS = ("f", "g", "h")
TASKS = ("review", "sum_up")

Arities = dict[str, int]


class Scope:
    """What is bound: names of values, functions with their arities."""

    def __init__(self, values: frozenset[str], functions: Arities) -> None:
        self.values = values
        self.functions = functions

    def with_values(self, *names: str) -> "Scope":
        return Scope(self.values | set(names), self.functions)

    def with_function(self, name: str, arity: int) -> "Scope":
        return Scope(self.values, {**self.functions, name: arity})


class Writer:
    """Writes expressions; `mistakes` in a hundred choices are wrong ones."""

    def __init__(self, draw: st.DrawFn, mistakes: int) -> None:
        self._draw = draw
        self._mistakes = mistakes

    def slips(self) -> bool:
        """Whether this choice is to be a wrong one."""
        return self._draw(st.integers(1, 100)) <= self._mistakes

    def one_of(self, choices: list[str]) -> str:
        return self._draw(st.sampled_from(choices))

    def count(self, most: int) -> int:
        return self._draw(st.integers(0, most))

    def value_name(self, scope: Scope) -> str:
        """Return a name to read, or a constant."""
        known = sorted(scope.values)
        return self.one_of(list(VALUES)) if self.slips() else self.one_of([*known, "1"])

    def text(self, scope: Scope) -> str:
        names = [self.value_name(scope) for _ in range(self.count(2))]
        return '"' + " ".join(["x", *(f"{{{{{name}}}}}" for name in names)]) + '"'

    def call(self, scope: Scope, depth: int) -> str:
        if not scope.functions and not self.slips():
            return "(list 1)"
        known = list(FUNCTIONS) if self.slips() else sorted(scope.functions)
        name = self.one_of(known or list(FUNCTIONS))
        arity = scope.functions.get(name, 1) + (1 if self.slips() else 0)
        return f"({name}{''.join(' ' + self.expression(scope, depth) for _ in range(arity))})"

    def expression(self, scope: Scope, depth: int) -> str:
        """Any expression."""
        if depth <= 0:
            return self.one_of(["1", '"s"', "nil", self.value_name(scope)])
        kind = self.one_of([*PLAIN, *CHECKED, "task", "task", "call", "call"])
        if kind == "task":
            return self.task(scope, depth - 1)
        if kind == "call":
            return self.call(scope, depth - 1)
        return (self.checked if kind in CHECKED else self.plain)(kind, scope, depth - 1)

    def plain(self, kind: str, scope: Scope, depth: int) -> str:
        """Return an expression that is not a task."""
        name, inner = self.one_of(list(VALUES)), self.expression(scope, depth)
        bound = scope.with_values(name)
        match kind:
            case "let":
                return f"(let (({name} {inner})) {self.expression(bound, depth)})"
            case "let-function":
                function = self.one_of(list(FUNCTIONS))
                body = self.expression(bound, depth)
                used = self.expression(scope.with_function(function, 1), depth)
                return f"(let* (({function} (lambda ({name}) {body}))) {used})"
            case "lambda":
                return f"((lambda ({name}) {self.expression(bound, depth)}) {inner})"
            case "map":
                return f"(map (lambda ({name}) {self.expression(bound, depth)}) (list {inner}))"
            case "map-name":
                known = [one for one, arity in scope.functions.items() if arity == 1 or self.slips()]
                return f"(map {self.one_of(sorted(known))} (list {inner}))" if known else inner
            case "try":
                return f"(try {inner} (catch {name} {self.expression(bound, depth)}))"
            case "begin":
                return f"(begin (define {name} {inner}) {self.expression(bound, depth)})"
            case "branch":
                return f"(if {self.value_name(scope)} (begin (define {name} 1)) (begin (define {name} 2)))"
            case "loop":
                return f"(loop 2 {inner})"
            case "set":
                return f"(set! {name} {inner})" if name in scope.values or self.slips() else inner
            case _:
                return f"({kind} {inner} {self.expression(scope, depth)})"

    def checked(self, kind: str, scope: Scope, depth: int) -> str:
        """Return an expression whose mistakes show in its constants."""
        name, inner = self.one_of(list(VALUES)), self.expression(scope, depth)
        bound = scope.with_values(name)
        match kind:
            case "apply":
                count = 2 if self.slips() else 1
                return (
                    f"(apply (lambda ({name}) {self.expression(bound, depth)}) (list{f' {inner}' * count}))"
                )
            case "condition":
                return '(condition "1 + true == 2")' if self.slips() else '(condition "1 + 1 == 2")'
            case _:
                return f"(review {self.json(inner)} {self.settings()})"

    def json(self, right: str) -> str:
        """Return a value that leaves the program, or by mistake a function."""
        return self.one_of(["car", "(lambda (x) x)"]) if self.slips() else right

    def settings(self) -> str:
        if self.slips():
            return self.one_of([':files "a.py"', ":model 3", ":history 3", ':context (dict :inherit "ful")'])
        return self.one_of([':files (list "a.py")', ':model "m"', ':context (dict :inherit "none")', ""])

    def task(self, scope: Scope, depth: int) -> str:
        name, value = self.one_of(list(VALUES)), self.expression(scope, depth)
        inside = scope.with_values(name)
        match self.one_of(
            ["atomic", "closed", "sequential", "parallel", "reduce", "loop", "cond", "reference"]
        ):
            case "atomic":
                slot = self.one_of(["", f":output-slot {self.one_of(list(VALUES))}"])
                passed = f"({name} {self.json(value)})"
                return f"(task :instructions {self.text(inside)} :inputs ({passed}) {slot})"
            case "closed":
                only = Scope(frozenset({name}), scope.functions)
                shown = self.text(scope if self.slips() else only)
                return f'(task :instructions {shown} :inputs (({name} {value})) :context (:inherit "none"))'
            case "sequential":
                later = scope.with_values("last_output", "steps", name)
                first = f"(task :instructions {self.text(scope)} :output-slot {name})"
                return f"(sequential {first} {self.expression(later, depth)})"
            case "parallel":
                return f"(sequential :parallel true {value} {self.expression(scope, depth)})"
            case "reduce":
                only = Scope(frozenset({name}), scope.functions)
                inner = self.expression(only.with_values("input"), depth)
                folded = self.expression(only.with_values("current_result", "accumulator"), depth)
                return f"(reduce-task :inputs (({name} {value})) :inner {inner} :reduction {folded})"
            case "loop":
                names = Scope(frozenset({"user_query", "evaluation", "director_result"}), scope.functions)
                director, judge = self.expression(names, depth), self.text(names)
                return (
                    f'(director-evaluator-loop :instructions "q" :director {director} :max-iterations 2'
                    f' :evaluator (task :instructions {judge}) :condition "current_iteration > 1")'
                )
            case "cond":
                test, other = self.value_name(scope), self.expression(scope, depth)
                return f'(task-cond ("output != {test}" {value}) ("output == 1" {other}))'
            case _:
                known = [one for one in scope.functions if one in TASKS]
                return f'(task :ref "{known[0]}" :inputs ((a {value})))' if known else value


PLAIN = ["list", "and", "or", "parallel", "loop", "if", "let", "let-function", "lambda", "map", "map-name"]
PLAIN += ["try", "begin", "branch", "set"]
CHECKED = ["apply", "condition", "settings"]


@st.composite
def closed_programs(draw: st.DrawFn, *, mistakes: int = 2, depth: int = 3) -> str:
    writer = Writer(draw, mistakes)
    scope = Scope(frozenset(), dict.fromkeys(TASKS, 1))
    forms: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        kind = writer.one_of(["value", "function", "expression", "expression"])
        if kind == "value":
            name = writer.one_of(list(VALUES))
            forms.append(f"(define {name} {writer.expression(scope, depth)})")
            scope = scope.with_values(name)
        elif kind == "function":
            name, arity = writer.one_of(list(FUNCTIONS)), writer.count(2)
            inner = scope.with_function(name, arity).with_values(*VALUES[:arity])
            parameters = "".join(f" {one}" for one in VALUES[:arity])
            forms.append(f"(define ({name}{parameters}) {writer.expression(inner, depth)})")
            scope = scope.with_function(name, arity)
        else:
            forms.append(writer.expression(scope, depth))
    # A template that uses a function is wrong where it is called before the function is defined.
    only = Scope(frozenset({"a"}), scope.functions if mistakes else {})
    review = f'(deftask review (a) :instructions {writer.text(only)} :system "{{{{a}}}}")'
    sum_up = f"(template sum_up (a) (list a {writer.expression(only, depth - 1)}))"
    forms.insert(writer.count(len(forms)), review)
    forms.insert(writer.count(len(forms)), sum_up)
    return "\n".join(forms)
