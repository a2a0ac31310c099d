"""Environments: bindings of names, chained to the enclosing environment."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from weft.language.library import TaskLibrary

_UNBOUND = object()


class Env(dict[str, Any]):
    """Bindings, and `outer`, the enclosing environment.

    `env[name]` searches the chain from the inside out. Variable look-ups are the most frequent operation of
    the evaluator; in a subclass of dict, the look-up of a local name runs no Python code.
    """

    __slots__ = ("outer",)

    outer: "Env | None"

    def __init__(
        self, parms: Iterable[str] = (), args: Iterable[Any] = (), outer: "Env | None" = None
    ) -> None:
        super().__init__(zip(parms, args, strict=False))
        self.outer = outer

    def __missing__(self, name: str) -> Any:
        env = self.outer
        while env is not None:
            if name in env:
                return env[name]
            if env.outer is None:
                return env.__missing__(name)
            env = env.outer
        raise NameError(f"name '{name}' is not bound")

    def find(self, var: str) -> "Env":
        """Return the innermost environment that binds the name. Raise NameError."""
        env: Env | None = self
        while env is not None:
            if var in env:
                return env
            env = env.outer
        raise NameError(f"name '{var}' is not bound")

    def chain(self) -> Iterator["Env"]:
        """Yield this environment and its enclosing ones, from the inside out."""
        env: Env | None = self
        while env is not None:
            yield env
            env = env.outer

    def lookup(self, var: str) -> Any:
        """Return the value of the name in the innermost environment that binds it. Raise NameError."""
        return self[var]

    def child(self, /, **bindings: Any) -> "Env":
        return Env(bindings.keys(), bindings.values(), self)


class GlobalEnv(Env):
    """The outermost environment: built-ins, `taskLibrary`, and the templates of the library by name."""

    __slots__ = ("_before", "_evaluations", "library")

    def __init__(self, library: TaskLibrary) -> None:
        super().__init__()
        self.library = library
        self._evaluations = 0
        self._before: dict[str, Any] = {}
        """The values to restore when the last of the concurrent evaluations ends; _UNBOUND for a new name."""
        self["taskLibrary"] = library

    def __setitem__(self, name: str, value: Any) -> None:
        self._before.pop(name, None)  # the program defines the name, so it must not be restored
        super().__setitem__(name, value)

    @contextmanager
    def bound(self, bindings: Mapping[str, Any]) -> Iterator[None]:
        """Bind names during an evaluation, then restore all but those that the program defines or assigns."""
        self._evaluations += 1
        for name in bindings:
            self._before.setdefault(name, self.get(name, _UNBOUND))
        self.update(bindings)
        try:
            yield
        finally:
            self._evaluations -= 1
            if not self._evaluations:  # concurrent evaluations share these names
                before, self._before = self._before, {}
                for name, value in before.items():
                    if value is _UNBOUND:
                        del self[name]
                    else:
                        self[name] = value

    def __missing__(self, name: str) -> Any:
        found = self.library.tasks.get(name)
        if found is None:
            raise NameError(f"name '{name}' is not bound")
        return found
