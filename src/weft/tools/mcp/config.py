"""Reads `.mcp.json`, the configuration of MCP servers, in the format that other applications use."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from weft.config.paths import read_start
from weft.errors import RequestError
from weft.secrets.references import is_secret_name, register_environment, register_password, register_variable
from weft.secrets.registry import register

MAX_FILE_BYTES = 1024 * 1024

_SERVER_NAME = re.compile(r"[A-Za-z0-9_.-]+")

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class InvalidServer(RequestError):
    """A server in `.mcp.json`, or the whole file, is invalid."""

    code = "invalid-mcp-server"


class StdioServer(Struct, frozen=True, kw_only=True):
    """A server that runs as a process, with messages on its standard input and output."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    cwd: str

    def __repr__(self) -> str:
        return f"StdioServer({self.name!r})"  # arguments and variables may contain secrets


class HttpServer(Struct, frozen=True, kw_only=True):
    """A server at a URL, with streamable HTTP as transport."""

    name: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"HttpServer({self.name!r})"  # headers contain secrets


Server = StdioServer | HttpServer


class _Entry(Struct, kw_only=True):
    """A server as written in the file; unknown fields are ignored, as other applications use them."""

    type: str | None = None
    command: str | None = None
    args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    disabled: bool = False


def read_servers(path: Path, environment: Mapping[str, str]) -> dict[str, Server | InvalidServer]:
    """Return the servers, or their errors, by name; empty if there is no file.

    Raise InvalidServer if the whole file cannot be read.
    """
    try:
        content = read_start(path, MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidServer(f"{path}: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise InvalidServer(f"{path}: longer than {MAX_FILE_BYTES} bytes")
    return {name: _read(name, entry, path, environment) for name, entry in _entries(content, path).items()}


def _entries(content: bytes, path: Path) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidServer(f"{path}: not JSON: {error}") from None
    servers = document.get("mcpServers") if isinstance(document, dict) else None
    if not isinstance(servers, dict):
        raise InvalidServer(f'{path}: it must be an object with "mcpServers", an object of servers by name')
    return servers


def _read(name: str, entry: Any, path: Path, environment: Mapping[str, str]) -> Server | InvalidServer:
    where = f"{path}: mcpServers.{name}"
    if not _SERVER_NAME.fullmatch(name):
        return InvalidServer(f"{where}: a name has letters, digits, '_', '-' and '.' only")
    try:
        return _server(name, msgspec.convert(entry, _Entry), path.parent, environment)
    except (msgspec.ValidationError, InvalidServer) as error:
        return InvalidServer(f"{where}: {error}")


def _server(name: str, entry: _Entry, folder: Path, environment: Mapping[str, str]) -> Server:
    if entry.disabled:
        raise InvalidServer("it is disabled")
    kind = entry.type or ("stdio" if entry.command is not None else "http" if entry.url is not None else None)

    def fill(text: str) -> str:
        return expand(text, environment)

    match kind:
        case "stdio" if entry.command:
            variables = {variable: fill(value) for variable, value in entry.env.items()}
            register_environment(variables)
            return StdioServer(
                name=name,
                command=fill(entry.command),
                args=tuple(map(fill, entry.args)),
                env=variables,
                cwd=str(folder / fill(entry.cwd or ".")),
            )
        case "http" | "streamable-http" | "streamable_http" if entry.url:
            return _http(name, fill(entry.url), {key: fill(value) for key, value in entry.headers.items()})
        case "stdio" | None:
            raise InvalidServer('it needs "command", or "url"')
        case "http" | "streamable-http" | "streamable_http":
            raise InvalidServer('it needs "url"')
        case "sse":
            raise InvalidServer('the "sse" transport is not supported; use streamable HTTP: "type": "http"')
        case _:
            raise InvalidServer(f'"type" is {kind!r}; it can be "stdio" or "http"')


def _http(name: str, url: str, headers: dict[str, str]) -> HttpServer:
    if not re.match(r"https?://[^/\s]", url, re.IGNORECASE):
        raise InvalidServer('"url" must begin with http:// or https://')  # not shown: it may contain a secret
    if any(not one.isprintable() for item in headers.items() for one in item):
        raise InvalidServer("a header has invalid characters")
    register_password(url, f"{name} url")
    for header, value in headers.items():
        if header.lower() in ("authorization", "cookie") or is_secret_name(header.replace("-", "_")):
            register(value, header)
            register(value.rpartition(" ")[2], header)  # without `Bearer`
    return HttpServer(name=name, url=url, headers=headers)


def expand(text: str, environment: Mapping[str, str]) -> str:
    """Replace `${VAR}` and `${VAR:-default}` by values of the environment; values are not expanded again."""

    def value(match: re.Match[str]) -> str:
        name, default = match.groups()
        found = environment.get(name) or default
        if found is None:
            raise InvalidServer(
                f"the environment variable {name} is not set, or empty; set it, or write ${{{name}:-default}}"
            )
        register_variable(name, found)
        return found

    return _VARIABLE.sub(value, text)
