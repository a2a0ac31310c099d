"""`Secret`, a Python value that programs can use and weft does not show."""

from weft.errors import RequestError
from weft.secrets.registry import MIN_CHARACTERS, register


class SecretTooShort(RequestError):
    """The value is too short to be kept secret, because it would match in ordinary text."""

    code = "secret-too-short"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the secret '{name}' has fewer than {MIN_CHARACTERS} characters: too short to be redacted"
        )


class Secret:
    """A value that programs can use and weft never shows: `evaluate(..., token=weft.Secret(value, "T"))`."""

    __slots__ = ("_name", "_value")

    def __init__(self, value: str, name: str = "secret") -> None:
        if not register(value, name):
            raise SecretTooShort(name)
        self._value = value
        self._name = name

    def reveal(self) -> str:
        """Return the value itself."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({self._name!r})"

    def __str__(self) -> str:
        return f"[secret {self._name}]"


def secret(value: str, name: str = "secret") -> Secret:
    """Create a value that programs can use and that is redacted in every log, error and record."""
    return Secret(value, name)
