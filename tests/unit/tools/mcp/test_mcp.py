"""Tools of real MCP servers, over pipes and over HTTP."""

import asyncio
import json
import logging
import os
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from mcp.server.mcpserver import MCPServer

from tests.command_line import is_gone
from tests.mcp_servers import SHOP, call, script, served, shop, toolbox_with
from weft.config.sections import ToolsSettings
from weft.evaluator.tools import ToolContext, ToolFailed
from weft.tools import Toolbox, open_toolbox
from weft.tools.mcp import client
from weft.tools.mcp.connection import ServerTimeouts


@pytest.fixture
async def toolbox(tmp_path: Path) -> AsyncIterator[Toolbox]:
    """Tools of a server of the test's own."""
    async with toolbox_with(tmp_path, shop=shop()) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Toolbox]:
    """Tools of one server for all tests that leave it as it was: each takes a second to start."""
    async with toolbox_with(tmp_path_factory.mktemp("shared"), shop=shop()) as made:
        yield made


in_one_loop = pytest.mark.asyncio(loop_scope="module")
"""For tests with the shared server: a connection belongs to one event loop."""


async def test_tools_of_a_program_are_found_and_called(
    toolbox: Toolbox, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO)
    assert not any(name.startswith("mcp:") for name in toolbox.names())

    tool = await toolbox.find("mcp:shop:add")

    assert tool is not None
    assert tool.definition.description == "Add two numbers."
    assert tool.definition.input_schema["required"] == ["a", "b"]
    assert tool.has_effects
    assert "mcp:shop:add" in toolbox.names()
    assert await call(toolbox, "add", a=1, b=2) == {"result": 3}
    assert await call(toolbox, "greet", name="Ada") == "Hello, Ada!"
    assert (await call(toolbox, "place")).endswith(f" {tmp_path}")
    assert await call(toolbox, "picture") == "a picture:\n[image/png of about 42 bytes is left out]"
    read_only = await toolbox.find("mcp:shop:die_once")
    assert read_only is not None
    assert read_only.has_effects  # what it says of itself is not believed
    assert await toolbox.find("mcp:shop:none") is None
    assert await toolbox.find("mcp:none:add") is None
    assert "shop: shop is open" in caplog.text
    assert capfd.readouterr() == ("", "")


@in_one_loop
async def test_what_a_tool_says_of_its_failure_is_told(shared: Toolbox) -> None:
    with pytest.raises(ToolFailed, match="Error executing tool fail"):
        await call(shared, "fail", reason="no stock")
    with pytest.raises(ToolFailed, match="valid integer"):
        await call(shared, "add", a="x", b=2)
    assert await call(shared, "add", a=1, b=2) == {"result": 3}


async def test_a_server_sees_little_of_our_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "hush")
    monkeypatch.setenv("LC_TIME", "C")

    async with toolbox_with(tmp_path, shop=shop(env={"SHOP_KEY": "${OPENAI_API_KEY}"})) as toolbox:
        seen = await call(toolbox, "environment")

    assert seen["SHOP_KEY"] == "hush"  # the file says so
    assert seen["LC_TIME"] == "C"
    assert {"OPENAI_API_KEY", "PYTEST_CURRENT_TEST"} & set(seen) == set()


@in_one_loop
async def test_calls_are_made_at_the_same_time_over_one_connection(shared: Toolbox) -> None:
    found = await asyncio.gather(*(call(shared, "add", a=number, b=1) for number in range(50)))
    places = await asyncio.gather(*(call(shared, "place") for _ in range(10)))

    assert found == [{"result": number + 1} for number in range(50)]
    assert len(set(places)) == 1


async def test_a_server_that_died_is_started_again(toolbox: Toolbox, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    before = await call(toolbox, "place")

    with pytest.raises(ToolFailed, match="MCP server 'shop': connection_error: it has ended"):
        await call(toolbox, "die", marker=str(marker))

    assert marker.read_text() == "called\n"  # it may have done its work: not asked for again
    after = await call(toolbox, "place")
    assert before != after


async def test_a_call_that_only_looks_is_made_again_when_the_server_died(tmp_path: Path) -> None:
    settings = ToolsSettings(read_only_hints=("shop",))
    async with toolbox_with(tmp_path, None, settings, shop=shop()) as toolbox:
        found = [await toolbox.find(f"mcp:shop:{name}") for name in ("die_once", "die")]
        assert [tool.has_effects for tool in found if tool is not None] == [False, True]
        assert await call(toolbox, "die_once", marker=str(tmp_path / "marker")) == "alive"


async def test_a_server_that_calls_itself_read_only_is_not_believed(toolbox: Toolbox, tmp_path: Path) -> None:
    with pytest.raises(ToolFailed, match="it has ended"):
        await call(toolbox, "die_once", marker=str(tmp_path / "marker"))


@in_one_loop
async def test_tools_that_come_and_go_are_seen(shared: Toolbox) -> None:
    assert await shared.find("mcp:shop:mend") is None
    await call(shared, "learn", name="mend")
    assert await call(shared, "mend") == "mend"
    await call(shared, "forget", name="mend")
    with pytest.raises(ToolFailed, match=r"[Uu]nknown tool"):
        await call(shared, "mend")


async def test_a_banner_on_standard_output_does_no_harm(tmp_path: Path) -> None:
    async with toolbox_with(tmp_path, shop=shop("--banner")) as toolbox:
        assert await call(toolbox, "add", a=1, b=2) == {"result": 3}
        with pytest.raises(ToolFailed, match="connection_error: it has ended"):  # not: it writes no messages
            await call(toolbox, "die", marker=str(tmp_path / "marker"))


async def test_closing_ends_the_program_and_what_it_started(tmp_path: Path) -> None:
    async with toolbox_with(tmp_path, shop=shop("--stubborn")) as toolbox:
        child = int(await call(toolbox, "child"))
        pid = int((await call(toolbox, "place")).split()[0])
        assert not is_gone(child)

    assert is_gone(pid)
    assert is_gone(child)


async def test_one_task_may_connect_and_another_close(tmp_path: Path) -> None:
    async with toolbox_with(tmp_path, shop=shop()) as toolbox:
        found = await asyncio.create_task(toolbox.find("mcp:shop:add"))
        assert found is not None
        await asyncio.create_task(toolbox.close())

        with pytest.raises(ToolFailed, match="it was closed"):
            await found.call({"a": 1, "b": 1}, ToolContext())
        assert await call(toolbox, "add", a=1, b=1) == {"result": 2}  # connected again


def test_a_toolbox_that_was_closed_can_be_used_in_another_event_loop(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"shop": shop()}}))
    toolbox = open_toolbox(ToolsSettings(), tmp_path, os.environ)

    async def used() -> Any:
        try:
            return await asyncio.gather(*(call(toolbox, "add", a=1, b=number) for number in range(3)))
        finally:
            await toolbox.close()

    for _ in range(2):
        assert asyncio.run(used()) == [{"result": 1}, {"result": 2}, {"result": 3}]


@in_one_loop
async def test_who_is_cancelled_lets_go_and_the_connection_stays(shared: Toolbox) -> None:
    pid = await call(shared, "place")
    calling = asyncio.create_task(call(shared, "hang"))
    await asyncio.sleep(0)
    calling.cancel()

    with pytest.raises(asyncio.CancelledError):
        await calling
    assert await call(shared, "place") == pid


async def test_who_is_cancelled_while_connecting_does_not_end_it_for_others(toolbox: Toolbox) -> None:
    first, second = (asyncio.create_task(toolbox.find("mcp:shop:add")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()

    with pytest.raises(asyncio.CancelledError):
        await first
    assert await second is not None


async def test_what_nobody_waits_for_any_more_ends_with_the_toolbox(tmp_path: Path) -> None:
    started = tmp_path / "started"
    hanging = {"command": "sh", "args": ["-c", f"echo $$ >> '{started}'; exec sleep 60"]}
    async with toolbox_with(tmp_path, shop=hanging) as toolbox:
        finding = asyncio.create_task(toolbox.find("mcp:shop:add"))
        while not started.exists() or not started.read_text().endswith("\n"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        finding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await finding

    assert is_gone(int(started.read_text()))


async def test_a_server_that_hangs_is_started_and_waited_for_once_by_all(tmp_path: Path) -> None:
    started = tmp_path / "started"
    hanging = {"command": "sh", "args": ["-c", f"echo x >> '{started}'; exec sleep 60"]}
    async with toolbox_with(tmp_path, ServerTimeouts(connect_seconds=2.0), shop=hanging) as toolbox:
        found = await asyncio.gather(
            *(toolbox.find("mcp:shop:add") for _ in range(6)), return_exceptions=True
        )
        with pytest.raises(ToolFailed, match="did not answer within 2 s"):  # remembered for a while
            await toolbox.find("mcp:shop:add")

    assert {str(error) for error in found} == {
        "MCP server 'shop': connection_error: it did not answer within 2 s"
    }
    assert started.read_text() == "x\n"


async def test_a_server_that_could_not_be_had_is_tried_again_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken"
    broken.touch()
    text = f"import os, runpy, sys; os.path.exists({str(broken)!r}) and sys.exit('broken'); "
    entry = script(f"{text}sys.argv = ['shop']; runpy.run_path({str(SHOP)!r}, run_name='__main__')")
    async with toolbox_with(tmp_path, shop=entry) as toolbox:
        with pytest.raises(ToolFailed, match="it said: broken"):
            await toolbox.find("mcp:shop:add")
        broken.unlink()
        with pytest.raises(ToolFailed, match="it said: broken"):
            await toolbox.find("mcp:shop:add")
        monkeypatch.setattr(client, "FAILURE_SECONDS", 0.0)
        assert await toolbox.find("mcp:shop:add") is not None


IMPORTING = """
import asyncio, json, sys, threading
from pathlib import Path
from weft.tools import open_toolbox
from weft.tools.mcp.connection import ServerTimeouts
from weft.config.sections import ToolsSettings
assert "mcp" not in sys.modules

class Watched:
    def find_spec(self, name, path=None, target=None):
        if name == "mcp":
            print(threading.current_thread() is threading.main_thread())
sys.meta_path.insert(0, Watched())

async def main():
    toolbox = open_toolbox(ToolsSettings(), Path(sys.argv[1]), {}, timeouts=ServerTimeouts(connect_seconds=1))
    try:
        await toolbox.find("mcp:shop:add")
    except Exception as error:
        print(error)
    await toolbox.close()
asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("content_type", "body"), [("text/html", b"<p>Welcome"), ("application/json", b'{"jsonrpc": "2.0", "id"')]
)
async def test_a_program_without_logging_sees_nothing_of_the_sdk(
    tmp_path: Path, content_type: str, body: bytes
) -> None:
    async def portal(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = [(b"content-type", content_type.encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    async with served(portal) as port:
        servers = {"mcpServers": {"shop": {"url": f"http://127.0.0.1:{port}/mcp"}}}
        (tmp_path / ".mcp.json").write_text(json.dumps(servers))
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-c", IMPORTING, tmp_path, stdout=PIPE, stderr=PIPE
        )
        out, err = await program.communicate()

    assert b"MCP server 'shop': " in out
    assert err == b""


def test_the_sdk_is_not_imported_on_the_event_loop(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"shop": {"command": "no-such-program"}}}))
    shown = subprocess.run(
        [sys.executable, "-c", IMPORTING, tmp_path], capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("False\nMCP server 'shop': connection_error: 'no-such-program' cannot")
    assert shown.stderr == ""


async def test_without_the_sdk_its_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    async with toolbox_with(tmp_path, shop=shop()) as toolbox:
        with pytest.raises(ToolFailed, match=r"pip install 'weft\[mcp\]'"):
            await toolbox.find("mcp:shop:add")


def http_shop() -> MCPServer:
    server = MCPServer("shop")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return server


@pytest.mark.parametrize("is_json", [True, False])
@pytest.mark.parametrize("is_stateless", [True, False])
async def test_tools_of_a_server_over_http(tmp_path: Path, is_json: bool, is_stateless: bool) -> None:
    app = http_shop().streamable_http_app(json_response=is_json, stateless_http=is_stateless)
    seen: list[bytes] = []

    async def noting(scope: object, receive: object, send: object) -> None:
        if isinstance(scope, dict) and scope["type"] == "http":
            seen.extend(value for name, value in scope["headers"] if name == b"x-key")
        await app(scope, receive, send)  # type: ignore[arg-type]

    async with served(noting) as port:
        entry = {"type": "http", "url": f"http://127.0.0.1:{port}/mcp", "headers": {"X-Key": "k"}}
        async with toolbox_with(tmp_path, shop=entry) as toolbox:
            assert await call(toolbox, "add", a=1, b=2) == {"result": 3}
            many = await asyncio.gather(*(call(toolbox, "add", a=number, b=0) for number in range(20)))

    assert many == [{"result": number} for number in range(20)]
    assert set(seen) == {b"k"}


async def test_a_server_over_http_that_began_anew_is_connected_to_again(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        async with served(http_shop().streamable_http_app()) as port:
            entry = {"url": f"http://127.0.0.1:{port}/mcp"}
            toolbox = await stack.enter_async_context(toolbox_with(tmp_path, shop=entry))
            assert await call(toolbox, "add", a=1, b=2) == {"result": 3}
        with pytest.raises(ToolFailed, match="MCP server 'shop': connection_error: "):
            await call(toolbox, "add", a=1, b=2)
        async with served(http_shop().streamable_http_app(), port):
            assert await call(toolbox, "add", a=1, b=3) == {"result": 4}
