"""Models that were given, under names that were given: for tests, and for programs that bring their own."""

from collections.abc import Mapping

from weft.llm.errors import InvalidModel, ModelError
from weft.llm.protocol import Model


class GivenModels:
    """One model for every name, or some by their names; the first of these is the default one."""

    def __init__(self, models: Model | Mapping[str, Model]) -> None:
        self._named = dict(models) if isinstance(models, Mapping) else {}
        self._any = None if isinstance(models, Mapping) else models
        self.asked: list[str | None] = []
        """The names that were asked for, in order."""

    async def find(self, model: str | None, provider: str | None = None) -> Model:
        """The model of that name. Raises ModelError."""
        name = model
        if model is not None and provider is not None:
            name = f"{provider}:{model.rpartition(':')[2]}"
        self.asked.append(name)
        if self._any is not None:
            return self._any
        if not self._named:
            raise ModelError("configuration_error", "no model is given")
        if name is None:
            return next(iter(self._named.values()))
        if name not in self._named:
            known = ", ".join(self._named)
            raise InvalidModel("configuration_error", f"there is no model '{name}' (given: {known})")
        return self._named[name]

    async def close(self) -> None:
        """Nothing is held."""
