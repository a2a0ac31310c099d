"""`.mcp.json` is read as other programs read it; what is wrong with it is said."""

import json
from pathlib import Path
from typing import Any

import pytest

from weft.tools.mcp.config import HttpServer, InvalidServer, StdioServer, expand, read_servers


def read(folder: Path, servers: Any, **environment: str) -> Any:
    path = folder / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return read_servers(path, environment)


def test_without_a_file_there_are_no_servers(tmp_path: Path) -> None:
    assert read_servers(tmp_path / ".mcp.json", {}) == {}


def test_programs_and_urls_are_servers(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        {
            "files": {"command": "npx", "args": ["-y", "files"], "env": {"A": "1"}, "cwd": "sub"},
            "typed": {"type": "stdio", "command": "x", "alwaysAllow": ["a"]},
            "web": {"type": "http", "url": "https://a.example/mcp", "headers": {"X": "1"}},
            "guessed": {"url": "http://localhost/mcp"},
            "long": {"type": "streamable-http", "url": "http://localhost/mcp"},
        },
    )

    assert found == {
        "files": StdioServer(
            name="files", command="npx", args=("-y", "files"), env={"A": "1"}, cwd=str(tmp_path / "sub")
        ),
        "typed": StdioServer(name="typed", command="x", cwd=str(tmp_path)),
        "web": HttpServer(name="web", url="https://a.example/mcp", headers={"X": "1"}),
        "guessed": HttpServer(name="guessed", url="http://localhost/mcp"),
        "long": HttpServer(name="long", url="http://localhost/mcp"),
    }


def test_variables_are_filled_in_from_the_environment(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        {
            "a": {"command": "${BIN}/x", "args": ["${A:-b c}"], "env": {"KEY": "${KEY}"}},
            "b": {"url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${KEY}"}},
        },
        BIN="/opt",
        KEY="${A} secret",
        HOST="a.example",
    )

    assert found["a"].command == "/opt/x"
    assert found["a"].args == ("b c",)
    assert found["a"].env == {"KEY": "${A} secret"}  # a value is text: not filled in again
    assert found["b"].headers == {"Authorization": "Bearer ${A} secret"}
    assert found["b"].url == "https://a.example/mcp"


def test_text_that_only_looks_like_a_variable_stays() -> None:
    assert expand("$A ${1x} ${} $$ ${A", {"A": "x"}) == "$A ${1x} ${} $$ ${A"


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({}, 'needs "command", or "url"'),
        ({"type": "stdio"}, 'needs "command"'),
        ({"type": "http", "command": "x"}, 'needs "url"'),
        ({"type": "sse", "url": "http://x"}, "streamable HTTP"),
        ({"type": "smoke"}, "'smoke'"),
        ({"command": 3}, "Expected `str"),
        ({"command": "x", "args": "y"}, "Expected `array"),
        ({"command": "${MISSING_ONE}"}, "MISSING_ONE is not set"),
        ({"url": "file:///etc/passwd"}, "must begin with http"),
        ({"url": "http://x", "headers": {"A": "b\r\nC: d"}}, "invalid characters"),
        ({"command": "x", "disabled": True}, "disabled"),
        ("x", "Expected `object"),
    ],
)
def test_a_server_that_is_written_wrongly_leaves_the_others_alone(
    tmp_path: Path, entry: Any, reason: str
) -> None:
    found = read(tmp_path, {"bad": entry, "good": {"command": "x"}})

    assert isinstance(found["bad"], InvalidServer)
    assert reason in found["bad"].message
    assert f"{tmp_path}/.mcp.json: mcpServers.bad: " in found["bad"].message
    assert isinstance(found["good"], StdioServer)


def test_a_name_with_a_colon_is_refused(tmp_path: Path) -> None:
    assert "letters, digits" in read(tmp_path, {"a:b": {"command": "x"}})["a:b"].message


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"mcpServers": []}', "[" * 100_000, "\ufeff{}"])
def test_a_file_that_is_no_such_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / ".mcp.json").write_text(text)

    with pytest.raises(InvalidServer, match=r"\.mcp\.json: (not JSON|it must be an object)"):
        read_servers(tmp_path / ".mcp.json", {})


def test_what_may_be_secret_is_in_no_repr_and_no_message(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        {
            "a": {"command": "x", "args": ["hush-1"], "env": {"K": "hush-2"}},
            "b": {"url": "https://x/hush-3", "headers": {"K": "hush-4"}},
            "c": {"url": "ftp://hush-5"},
            "d": {"url": "http://x", "headers": {"K": "hush-6\n"}},
        },
    )

    assert "hush" not in repr(found)
    assert all("hush" not in str(one) for one in found.values())
