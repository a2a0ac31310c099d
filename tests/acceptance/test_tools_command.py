"""`weft tools` as a person uses it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.command_line import weft
from tests.mcp_servers import shop


def ran(folder: Path, *arguments: str) -> str:
    done = weft("tools", *arguments, db=None, cwd=folder)
    assert done.code == 0, done.err
    return done.out


def listed(folder: Path, *arguments: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in json.loads(ran(folder, "--json", *arguments))["tools"]}


def project(folder: Path) -> Path:
    (folder / "weft.toml").write_text(
        '[tools]\nmodules = ["my_tools", "missing"]\nexecutors = ["sleep", "htpp"]\n'
        'read_only_hints = ["believed"]\n'
    )
    (folder / "my_tools.py").write_text(
        'import weft\n@weft.tool(name="shop:price", pure=True)\ndef price(item: str) -> float:\n'
        '    """What an item costs."""\n    return 1.0\n'
    )
    servers = {
        "shop": shop(),
        "believed": shop(),
        "broken": {"command": "no-such-program"},
        "odd": {"type": "smoke"},
    }
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    sub = folder / "sub"
    sub.mkdir()
    return sub


def test_the_list_says_what_there_is_where_from_and_why_not(tmp_path: Path) -> None:
    folder = project(tmp_path)

    shown = ran(folder)
    found = listed(folder)

    assert "system:read_files" in shown
    assert "not usable" in shown
    assert found["system:write_file"]["has_effects"] is True
    assert found["system:read_files"]["has_effects"] is False
    assert found["shop:price"] == {
        "name": "shop:price",
        "source": "my_tools.price",
        "description": "What an item costs.",
        "has_effects": False,
        "usable": True,
        "why": None,
    }
    assert found["executor:sleep"]["usable"] is True
    assert "did you mean 'http'" in found["executor:htpp"]["why"]
    assert "No module named 'missing'" in found["python:*"]["why"]
    assert found["mcp:shop:*"]["description"] == "not connected yet"
    assert "smoke" in found["mcp:odd:*"]["why"]


def test_with_connect_the_tools_of_servers_are_listed_too(tmp_path: Path) -> None:
    found = listed(project(tmp_path), "--connect")

    assert found["mcp:shop:add"]["description"] == "Add two numbers."
    assert found["mcp:shop:add"]["has_effects"] is True
    assert found["mcp:shop:die_once"]["has_effects"] is True
    assert found["mcp:believed:die_once"]["has_effects"] is False
    assert "cannot be started" in found["mcp:broken:*"]["why"]


def test_in_an_empty_folder_there_are_the_tools_of_weft(tmp_path: Path) -> None:
    assert set(listed(tmp_path)) == {
        "system:read_files",
        "system:list_directory",
        "system:write_file",
        "system:run_script",
        "system:get_context",
        "system:request_user_input",
        "system:spawn_subtask",
    }


def test_help_does_not_pay_for_servers(tmp_path: Path) -> None:
    code = (
        "import sys; from weft.cli.main import weft\n"
        "weft.main(['tools', '--help'], standalone_mode=False)\n"
        "assert not {'mcp', 'anyio', 'httpx2'} & set(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)


def test_tools_are_listed_without_paying_for_the_sdk(tmp_path: Path) -> None:
    code = (
        "import sys; from weft.cli.main import weft\n"
        "weft.main(['tools'], standalone_mode=False)\n"
        "assert not {'mcp', 'mcp_types', 'pydantic'} & set(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)
