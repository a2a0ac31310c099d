"""Environments: names and values, each with the one around it."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from weft.language.library import TaskLibrary

_NOTHING = object()


class Env(dict[str, Any]):
    """Bindings, and `outer`, the environment around them.

    `env[name]` looks along the chain: a miss goes outwards. Reading a name is the most frequent thing the
    evaluator does, and this way a hit costs no Python code.
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
        """The innermost environment that binds the name; raises NameError."""
        env: Env | None = self
        while env is not None:
            if var in env:
                return env
            env = env.outer
        raise NameError(f"name '{var}' is not bound")

    def lookup(self, var: str) -> Any:
        """The value of the name in the innermost environment that binds it; raises NameError."""
        return self[var]

    def child(self, /, **bindings: Any) -> "Env":
        """A new environment inside this one."""
        return Env(bindings.keys(), bindings.values(), self)


class GlobalEnv(Env):
    """The outermost environment: built-ins, `taskLibrary`, and every template of the library by its name."""

    __slots__ = ("_before", "_users", "library")

    def __init__(self, library: TaskLibrary) -> None:
        super().__init__()
        self.library = library
        self._users = 0
        self._before: dict[str, Any] = {}
        """What names meant that are now bindings of an evaluation."""
        self["taskLibrary"] = library

    def __setitem__(self, name: str, value: Any) -> None:
        self._before.pop(name, None)  # defined by a program: it stays
        super().__setitem__(name, value)

    @contextmanager
    def bound(self, bindings: Mapping[str, Any]) -> Iterator[None]:
        """Bind names for the time of an evaluation; what a program defines or sets itself stays."""
        self._users += 1
        for name in bindings:
            self._before.setdefault(name, self.get(name, _NOTHING))
        self.update(bindings)
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:  # evaluations that run at the same time have their names in common
                self._restore()

    def _restore(self) -> None:
        before, self._before = self._before, {}
        for name, value in before.items():
            if value is _NOTHING:
                del self[name]
            else:
                self[name] = value

    def __missing__(self, name: str) -> Any:
        found = self.library.tasks.get(name)
        if found is None:
            raise NameError(f"name '{name}' is not bound")
        return found
