"""Peter Norvig's two Scheme interpreters, as far as the benchmark's programs need them.

After "(How to Write a (Lisp) Interpreter (in Python))" and "(An ((Even Better) Lisp) Interpreter (in
Python))", https://norvig.com/lispy.html and lispy2.html, (c) Peter Norvig 2010-18, MIT licence. `lis_eval` is
eval of lis.py, which recurses; `lispy_eval` is that of lispy.py, whose loop makes tail calls proper. Kept as
published, but for names, type hints and what is left out (macros, ports, call/cc).
"""

import operator
from collections.abc import Callable, Iterable
from typing import Any


class Symbol(str):
    """A name; there is one object per name, so that they can be compared with `is`."""

    __slots__ = ()


_symbols: dict[str, Symbol] = {}


def symbol(text: str) -> Symbol:
    if text not in _symbols:
        _symbols[text] = Symbol(text)
    return _symbols[text]


_quote, _if, _set, _define, _lambda, _begin = map(
    symbol, ["quote", "if", "set!", "define", "lambda", "begin"]
)


# Reading


def parse(program: str) -> Any:
    return read_from_tokens(program.replace("(", " ( ").replace(")", " ) ").split())


def read_from_tokens(tokens: list[str]) -> Any:
    if not tokens:
        raise SyntaxError("unexpected EOF while reading")
    token = tokens.pop(0)
    if token == "(":  # noqa: S105
        items = []
        while tokens[0] != ")":
            items.append(read_from_tokens(tokens))
        tokens.pop(0)
        return items
    if token == ")":  # noqa: S105
        raise SyntaxError("unexpected )")
    return atom(token)


def atom(token: str) -> Any:
    try:
        return int(token)
    except ValueError:
        try:
            return float(token)
        except ValueError:
            return symbol(token)


# Environments


class LisEnv(dict[str, Any]):
    """Env of lis.py."""

    def __init__(self, parms: Iterable[str] = (), args: Iterable[Any] = (), outer: Any = None) -> None:
        self.update(zip(parms, args))  # noqa: B905  # as published
        self.outer = outer

    def find(self, var: str) -> "LisEnv":
        return self if (var in self) else self.outer.find(var)


class LispyEnv(dict[str, Any]):
    """Env of lispy.py."""

    def __init__(self, parms: Any = (), args: Any = (), outer: Any = None) -> None:
        self.outer = outer
        if isinstance(parms, Symbol):
            self.update({parms: list(args)})
        else:
            if len(args) != len(parms):
                raise TypeError(f"expected {parms}, given {args}")
            self.update(zip(parms, args))  # noqa: B905  # as published

    def find(self, var: str) -> "LispyEnv":
        if var in self:
            return self
        if self.outer is None:
            raise LookupError(var)
        found: LispyEnv = self.outer.find(var)
        return found


STANDARD: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
    "range": lambda n: list(range(n)),
    "length": len,
    "map": lambda function, items: list(map(function, items)),
}


# lis.py


class LisProcedure:
    def __init__(self, parms: Any, body: Any, env: LisEnv) -> None:
        self.parms, self.body, self.env = parms, body, env

    def __call__(self, *args: Any) -> Any:
        return lis_eval(self.body, LisEnv(self.parms, args, self.env))


def lis_eval(x: Any, env: LisEnv) -> Any:
    if isinstance(x, Symbol):
        return env.find(x)[x]
    if not isinstance(x, list):
        return x
    op, *args = x
    if op == "quote":
        return args[0]
    if op == "if":
        (test, conseq, alt) = args
        exp = conseq if lis_eval(test, env) else alt
        return lis_eval(exp, env)
    if op == "define":
        (name, exp) = args
        env[name] = lis_eval(exp, env)
        return None
    if op == "set!":
        (name, exp) = args
        env.find(name)[name] = lis_eval(exp, env)
        return None
    if op == "lambda":
        (parms, body) = args
        return LisProcedure(parms, body, env)
    proc = lis_eval(op, env)
    vals = [lis_eval(arg, env) for arg in args]
    return proc(*vals)


# lispy.py


class LispyProcedure:
    def __init__(self, parms: Any, exp: Any, env: LispyEnv) -> None:
        self.parms, self.exp, self.env = parms, exp, env

    def __call__(self, *args: Any) -> Any:
        return lispy_eval(self.exp, LispyEnv(self.parms, args, self.env))


def lispy_eval(x: Any, env: LispyEnv) -> Any:
    while True:
        if isinstance(x, Symbol):
            return env.find(x)[x]
        if not isinstance(x, list):
            return x
        if x[0] is _quote:
            (_, exp) = x
            return exp
        if x[0] is _if:
            (_, test, conseq, alt) = x
            x = conseq if lispy_eval(test, env) else alt
        elif x[0] is _set:
            (_, var, exp) = x
            env.find(var)[var] = lispy_eval(exp, env)
            return None
        elif x[0] is _define:
            (_, var, exp) = x
            env[var] = lispy_eval(exp, env)
            return None
        elif x[0] is _lambda:
            (_, vars_, exp) = x
            return LispyProcedure(vars_, exp, env)
        elif x[0] is _begin:
            for exp in x[1:-1]:
                lispy_eval(exp, env)
            x = x[-1]
        else:
            exps = [lispy_eval(exp, env) for exp in x]
            proc = exps.pop(0)
            if isinstance(proc, LispyProcedure):
                x = proc.exp
                env = LispyEnv(proc.parms, exps, proc.env)
            else:
                return proc(*exps)


def lis(program: str) -> Any:
    """The value of a program in lis.py."""
    return lis_eval(parse(program), _lis_global)


def lispy(program: str) -> Any:
    """The value of a program in lispy.py."""
    return lispy_eval(parse(program), _lispy_global)


_lis_global = LisEnv()
_lis_global.update(STANDARD)
_lispy_global = LispyEnv()
_lispy_global.update(STANDARD)
