"""The kinds of providers: address, packages and client of each, and which JSON Schemas it enforces.

A new kind is a class here, and its name and key in `weft.config.sections`. Imports nothing slow: the client
libraries are imported when a connection is made.
"""

import graphlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from weft.config.sections import ProviderKind

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model as ClientModel

_WRAPPER_PROPERTY = "value"
"""The property of the object around a wrapped schema."""

_RESTRICTING = frozenset({"type", "enum", "const", "anyOf", "$ref"})
"""Keywords that restrict the values of a schema; a schema without any of them allows JSON of any shape."""
_ANNOTATIONS = frozenset({"$schema", "$defs", "definitions", "title", "description"})
_BASIC = _RESTRICTING | _ANNOTATIONS | {"properties", "required", "additionalProperties", "items"}
_BOUNDS = frozenset({"minimum", "maximum", "minItems", "maxItems"})
_DESCRIBED = _BOUNDS | {"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "format", "default"}
"""Keywords that Anthropic's client moves into descriptions; it rejects other keywords outside `_BASIC`."""


class Kind:
    """A protocol of providers, with the client that speaks it; the defaults are those of OpenAI."""

    package: ClassVar[str]
    """The client library."""
    home: ClassVar[str]
    """Default address. Passed explicitly, because environment variables change the libraries' defaults."""
    enforced: ClassVar[frozenset[str]]
    """The keywords that the provider enforces; its client or server drops, ignores or rejects others."""
    is_always_streamed = False

    def make_provider(self, name: str, key: str, base_url: str | None, http: "httpx2.AsyncClient") -> Any:
        """Return pydantic-ai's provider, with the client's own retries turned off, because weft retries.

        `base_url` is None for the provider's own address.
        """
        raise NotImplementedError

    def make_model(self, name: str, provider: Any, profile: Any) -> "ClientModel":
        """Return pydantic-ai's model of this name."""
        raise NotImplementedError

    def _client_options(self, key: str, base_url: str | None, http: "httpx2.AsyncClient") -> dict[str, Any]:
        return {
            "api_key": key,
            "base_url": base_url or self.home,
            "max_retries": 0,
            "timeout": http.timeout,
            "http_client": http,
        }

    def can_combine_tools(self, profile: Any) -> bool:
        """Return whether a request may have both tools and an output schema."""
        return True

    def keeps_meaning(self, schema: dict[str, Any], parts: Sequence[dict[str, Any]]) -> bool:
        """Return whether the provider's client passes the schema on with its meaning."""
        return True

    def is_enforced(self, part: dict[str, Any]) -> bool:
        """Return whether the provider enforces this part of a schema; nested ones are checked separately."""
        if part.keys() - self.enforced:
            return False
        return "$ref" not in part or (_is_definition(part["$ref"]) and not self.loses_keywords(part))

    def loses_keywords(self, part: dict[str, Any]) -> bool:
        """Return whether conditions beside a reference do not reach the provider."""
        return bool(_beside_reference(part) & _BASIC - _ANNOTATIONS)


class OpenAi(Kind):
    """OpenAI, and servers that speak its protocol."""

    package = "openai"
    home = "https://api.openai.com/v1"
    enforced = _BASIC | _BOUNDS | {"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern"}

    def make_provider(self, name: str, key: str, base_url: str | None, http: "httpx2.AsyncClient") -> Any:
        from openai import AsyncOpenAI
        from pydantic_ai.providers.openai import OpenAIProvider
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        client = AsyncOpenAI(**self._client_options(key, base_url, http))
        if base_url is None:
            return OpenAIProvider(openai_client=client)
        return OpenAICompatibleProvider(name, openai_client=client)

    def make_model(self, name: str, provider: Any, profile: Any) -> "ClientModel":
        from pydantic_ai.models.openai import OpenAIChatModel

        profile["openai_chat_streaming_requires_finish_reason"] = True
        return OpenAIChatModel(name, provider=provider, profile=profile)

    def is_enforced(self, part: dict[str, Any]) -> bool:
        # Strict mode accepts no optional properties, no additional properties and no JSON of any shape.
        is_complete = set(part.get("properties", ())) == set(part.get("required", ()))
        has_items = "array" not in _types(part) or bool(part.get("items"))
        is_typed = bool(part.keys() & _RESTRICTING) and has_items
        return super().is_enforced(part) and _is_closed(part) and is_complete and is_typed


class Anthropic(Kind):
    """Anthropic. Its client closes objects, and fails for type lists, parts of any shape and recursion."""

    package = "anthropic"
    home = "https://api.anthropic.com"
    enforced = _BASIC
    is_always_streamed = True  # it refuses requests for long responses without streaming

    def make_provider(self, name: str, key: str, base_url: str | None, http: "httpx2.AsyncClient") -> Any:
        from anthropic import AsyncAnthropic
        from pydantic_ai.providers.anthropic import AnthropicProvider

        client = AsyncAnthropic(**self._client_options(key, base_url, http))
        return AnthropicProvider(anthropic_client=client)

    def make_model(self, name: str, provider: Any, profile: Any) -> "ClientModel":
        from pydantic_ai.models.anthropic import AnthropicModel

        return AnthropicModel(name, provider=provider, profile=profile)

    def keeps_meaning(self, schema: dict[str, Any], parts: Sequence[dict[str, Any]]) -> bool:
        return not _is_recursive(schema) and all(map(self._fits, parts))

    def loses_keywords(self, part: dict[str, Any]) -> bool:
        return bool(_beside_reference(part))  # also titles and descriptions

    def _fits(self, part: dict[str, Any]) -> bool:
        """Return whether the client accepts the part. It moves `definitions` into a description."""
        is_known = bool(part.keys() & _RESTRICTING) and not part.keys() - _BASIC - _DESCRIBED
        is_found = "definitions" not in part and _is_definition(part.get("$ref", "#/$defs/"))
        return is_known and is_found and _is_closed(part) and not isinstance(part.get("type"), list)


class Google(Kind):
    """Google's Gemini. It returns `{}` for an object without named properties."""

    package = "google.genai"
    home = "https://generativelanguage.googleapis.com"
    enforced = _BASIC | _BOUNDS | {"prefixItems", "oneOf"}

    def make_provider(self, name: str, key: str, base_url: str | None, http: "httpx2.AsyncClient") -> Any:
        from pydantic_ai.providers.google import GoogleProvider

        return GoogleProvider(api_key=key, base_url=base_url or self.home, http_client=http)

    def make_model(self, name: str, provider: Any, profile: Any) -> "ClientModel":
        from pydantic_ai.models.google import GoogleModel

        return GoogleModel(name, provider=provider, profile=profile)

    def can_combine_tools(self, profile: Any) -> bool:
        return bool(profile.get("google_supports_tool_combination"))

    def keeps_meaning(self, schema: dict[str, Any], parts: Sequence[dict[str, Any]]) -> bool:
        return all("properties" in part or "object" not in _types(part) for part in parts)

    def is_enforced(self, part: dict[str, Any]) -> bool:
        is_null = "const" in part and part["const"] is None
        return super().is_enforced(part) and not is_null


KINDS: dict[ProviderKind, Kind] = {"openai": OpenAi(), "anthropic": Anthropic(), "google": Google()}


class HeldOutput(Struct, frozen=True):
    """An output schema for a provider. Providers accept only object schemas; others are wrapped in one."""

    schema: dict[str, Any]
    is_wrapped: bool = False
    is_enforced: bool = True
    """Whether the provider enforces the whole schema. If not, the prompt must state the schema."""
    is_strict: bool | None = None
    """False if the client must not adapt the schema to OpenAI's strict mode, which closes open objects."""

    def unwrap(self, text: str) -> str:
        """Return the wrapped value as JSON; text of another form is returned unchanged."""
        if not self.is_wrapped:
            return text
        try:
            value = json.loads(text)
        except ValueError:
            return text
        if not isinstance(value, dict) or list(value) != [_WRAPPER_PROPERTY]:
            return text
        return json.dumps(value[_WRAPPER_PROPERTY], ensure_ascii=False)


def held_output(schema: dict[str, Any], kind: ProviderKind) -> HeldOutput | None:
    """Return the schema for providers of this kind; None if it is empty or its meaning would change."""
    parts = list(_parts(schema))
    if not schema or not KINDS[kind].keeps_meaning(schema, parts):
        return None
    is_enforced = all(map(KINDS[kind].is_enforced, parts))
    is_strict = False if kind == "openai" and not is_enforced else None
    if schema.get("type") == "object" and not {"$ref", "anyOf", "oneOf", "allOf"} & schema.keys():
        return HeldOutput(schema, is_enforced=is_enforced, is_strict=is_strict)
    if any(
        str(part.get("$ref", "#/$defs/")).split("/")[1:2] not in (["$defs"], ["definitions"])
        for part in parts
    ):
        return None  # wrapping the schema would break this reference
    inner = dict(schema)
    outer: dict[str, Any] = {
        name: inner.pop(name) for name in ("$schema", "$defs", "definitions") if name in inner
    }
    outer |= {
        "type": "object",
        "properties": {_WRAPPER_PROPERTY: inner},
        "required": [_WRAPPER_PROPERTY],
        "additionalProperties": False,
    }
    return HeldOutput(outer, is_wrapped=True, is_enforced=is_enforced, is_strict=is_strict)


def _is_closed(part: dict[str, Any]) -> bool:
    """Return True if the part does not allow objects with properties that it does not name."""
    if "object" not in _types(part) and not part.keys() & {"properties", "additionalProperties"}:
        return True
    return "properties" in part and part.get("additionalProperties") is False


def _types(part: dict[str, Any]) -> list[Any]:
    named = part.get("type")
    return named if isinstance(named, list) else [named]


def _is_definition(reference: Any) -> bool:
    """Return True if a reference points to a definition or the root; the clients follow no others."""
    return reference == "#" or str(reference).startswith(("#/$defs/", "#/definitions/"))


def _beside_reference(part: dict[str, Any]) -> set[str]:
    """Return the keywords beside a reference that apply to its values."""
    return part.keys() - {"$ref", "$schema", "$defs", "definitions"}


def _is_recursive(schema: dict[str, Any]) -> bool:
    """Return True if a definition refers to itself, directly or through others."""
    references = {
        f"#/{section}/{name}": {part["$ref"] for part in _parts(definition) if "$ref" in part}
        for section in ("$defs", "definitions")
        for name, definition in schema.get(section, {}).items()
    }
    references["#"] = {part["$ref"] for part in _parts(schema) if part.get("$ref") == "#"}
    try:
        graphlib.TopologicalSorter(references).prepare()
    except graphlib.CycleError:
        return True
    return False


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the schema and all its nested schemas; property names and constants are not schemas."""
    stack = [schema]
    while stack:
        part = stack.pop()
        if isinstance(part, list):
            stack.extend(part)
        elif isinstance(part, dict):
            yield part
            for name, value in part.items():
                if name in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"):
                    stack.extend(map(_as_object_schema, value.values() if isinstance(value, dict) else ()))
                elif name in ("items", "prefixItems", "anyOf", "oneOf", "allOf", "not", "contains"):
                    stack.extend(map(_as_object_schema, value if isinstance(value, list) else [value]))
                elif name not in ("enum", "const", "default", "examples", "required"):
                    stack.append(value)


def _as_object_schema(schema: Any) -> Any:
    """Return a boolean schema as an object: `{}` for true, one that no value matches for false."""
    if isinstance(schema, bool):
        return {} if schema else {"not": {"type": ["null", "boolean", "number", "string", "array", "object"]}}
    return schema
