"""A secret as a Python value."""

from weft.errors import RequestError
from weft.secrets.registry import MIN_CHARACTERS, register


class SecretTooShort(RequestError):
    """A value cannot be kept secret: it is so short that it would be found in any text."""

    code = "secret-too-short"

    def __init__(self, name: str) -> None:
        super().__init__(f"the secret '{name}' has fewer than {MIN_CHARACTERS} characters: no secret to keep")


class Secret:
    """A value that programs can use and nobody is to read: `evaluate(..., token=weft.Secret(value, "T"))`."""

    __slots__ = ("_name", "_value")

    def __init__(self, value: str, name: str = "secret") -> None:
        if not register(value, name):
            raise SecretTooShort(name)
        self._value = value
        self._name = name

    def reveal(self) -> str:
        """The value itself."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({self._name!r})"

    def __str__(self) -> str:
        return f"[secret {self._name}]"


def secret(value: str, name: str = "secret") -> Secret:
    """A value that programs can use and nobody is to read; it is kept out of every log, error and record."""
    return Secret(value, name)
