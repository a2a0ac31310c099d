"""Environments: names and values, each with the one around it."""

from collections.abc import Iterable
from typing import Any, Self


class Env(dict[str, Any]):
    """Bindings, and `outer`, the environment around them.

    `env[name]` looks along the chain: a miss goes outwards. Reading a name is the most frequent thing the
    evaluator does, and this way a hit costs no Python code.
    """

    __slots__ = ("outer",)

    def __init__(
        self, parms: Iterable[str] = (), args: Iterable[Any] = (), outer: "Env | None" = None
    ) -> None:
        super().__init__(zip(parms, args, strict=False))
        self.outer = outer

    def __missing__(self, name: str) -> Any:
        if self.outer is None:
            raise NameError(f"name '{name}' is not bound")
        return self.outer[name]

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

    def child(self, **bindings: Any) -> Self:
        """A new environment inside this one."""
        env = type(self)(outer=self)
        env.update(bindings)
        return env
