"""Environments: names and values, each with the one around it."""

from collections.abc import Iterable
from typing import Any

from weft.language.library import TaskLibrary


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

    __slots__ = ("library",)

    def __init__(self, library: TaskLibrary) -> None:
        super().__init__()
        self.library = library
        self["taskLibrary"] = library

    def __missing__(self, name: str) -> Any:
        found = self.library.tasks.get(name)
        if found is None:
            raise NameError(f"name '{name}' is not bound")
        return found
