"""`system:...` tools, as a model or a program calls them."""

import logging
import shlex
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from weft.config.sections import CommandSettings, ToolsSettings
from weft.effects.tools import open_project_tools, script_runner
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure
from weft.evaluator.tools import Tool, ToolContext, ToolFailed
from weft.tools import Toolbox, open_toolbox, system

NAMES = {
    "system:read_files",
    "system:list_directory",
    "system:write_file",
    "system:run_script",
    "system:get_context",
    "system:request_user_input",
}


def toolbox_of(folder: Path) -> Toolbox:
    return open_project_tools(ToolsSettings(), folder, {})


async def call(folder: Path, name: str, context: ToolContext | None = None, **arguments: Any) -> Any:
    """Call the tool with arguments that fit its schema."""
    tool = await toolbox_of(folder).find(f"system:{name}")
    assert tool is not None
    jsonschema_rs.validate(tool.definition.input_schema, arguments, offline=True)
    return await tool.call(arguments, context or ToolContext())


async def test_every_system_tool_is_there_with_a_schema_and_words(tmp_path: Path) -> None:
    toolbox = toolbox_of(tmp_path)

    assert toolbox.names() >= NAMES
    for name in NAMES:
        tool = await toolbox.find(name)
        assert tool is not None
        assert tool.definition.input_schema["type"] == "object"
        assert tool.definition.input_schema["additionalProperties"] is False
        assert len(tool.definition.description) > 40


async def test_files_are_read_each_with_its_content_or_its_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    (tmp_path / "b").write_bytes(b"\0\1")

    given = await call(tmp_path, "read_files", paths=["a", "none", "b", "../x"])

    assert given["files"][0] == {"path": "a", "content": "one"}
    assert [file["path"] for file in given["files"] if "error" in file] == ["none", "b", "../x"]
    assert "binary file of 2 bytes" in given["files"][2]["error"]


async def test_a_call_that_reads_nothing_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(ToolFailed, match="'/etc/passwd' is refused: it leads out of the roots"):
        await call(tmp_path, "read_files", paths=["/etc/passwd"])
    assert [vars(record)["action"] for record in caplog.records] == ["path_refused"]


async def test_long_files_and_many_files_are_cut_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "MAX_READ_BYTES", 6)
    monkeypatch.setattr(system, "MAX_TOTAL_BYTES", 10)
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("12345678")

    files = (await call(tmp_path, "read_files", paths=["a", "b", "c"]))["files"]

    assert files[0] == {"path": "a", "content": "123456", "note": "cut: the first 6 of 8 bytes"}
    assert files[1] == {"path": "b", "content": "1234", "note": "cut: the first 4 of 8 bytes"}
    assert "not read" in files[2]["error"]


async def test_a_folder_is_listed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a").write_text("one")

    assert await call(tmp_path, "list_directory") == {
        "path": ".",
        "entries": [{"name": "a", "kind": "file", "size": 3}, {"name": "sub", "kind": "folder"}],
    }
    with pytest.raises(ToolFailed, match="no such"):
        await call(tmp_path, "list_directory", path="none")


async def test_a_file_is_written(tmp_path: Path) -> None:
    assert await call(tmp_path, "write_file", path="new/a", content="one") == {"path": "new/a", "bytes": 3}

    assert (tmp_path / "new" / "a").read_text() == "one"
    with pytest.raises(ToolFailed, match="out of the roots"):
        await call(tmp_path, "write_file", path="../a", content="one")


async def test_a_program_runs_in_the_first_root_with_its_input(tmp_path: Path) -> None:
    given = await call(tmp_path, "run_script", argv=["sh", "-c", "pwd; cat; echo no >&2; exit 3"], stdin="in")

    assert given == {
        "stdout": f"{tmp_path}\nin",
        "stderr": "no\n",
        "exit_code": 3,
        "timed_out": False,
    }


async def test_arguments_of_a_program_are_read_by_no_shell(tmp_path: Path) -> None:
    given = await call(tmp_path, "run_script", argv=["echo", "$HOME; touch made"])

    assert given["stdout"] == "$HOME; touch made\n"
    assert (await call(tmp_path, "list_directory"))["entries"] == []


async def test_a_program_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    given = await call(tmp_path, "run_script", argv=["sleep", "60"], timeout_seconds=0.1)

    assert (given["timed_out"], given["exit_code"]) == (True, None)


async def test_programs_run_under_the_rules_of_the_command_executor(tmp_path: Path) -> None:
    run = script_runner(CommandSettings(allow=("git",)), tmp_path)
    tool = await open_toolbox(ToolsSettings(), tmp_path, {}, run_script=run).find("system:run_script")
    assert tool is not None

    with pytest.raises(ToolFailed, match="executable 'sh' may not run"):
        await tool.call({"argv": ["sh"]}, ToolContext())


async def test_long_output_is_given_with_its_start_and_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "MAX_OUTPUT_CHARACTERS", 10)

    given = await call(tmp_path, "run_script", argv=shlex.split("printf abcdefghijklmnopqrst"))

    assert given["stdout"] == "abcde\n[... 10 characters left off ...]\npqrst"


async def test_without_anybody_to_run_them_programs_fail(tmp_path: Path) -> None:
    tool = await open_toolbox(ToolsSettings(), tmp_path, {}).find("system:run_script")
    assert tool is not None

    with pytest.raises(ToolFailed, match="cannot be run here"):
        await tool.call({"argv": ["true"]}, ToolContext())


async def test_memory_is_asked(tmp_path: Path) -> None:
    async def get_context(query: str) -> dict[str, Any]:
        return {"contextSummary": query, "matches": []}

    async def fail(query: str) -> dict[str, Any]:
        raise TaskFailed(TaskFailure("configuration_error", "the index is broken"))

    given = await call(tmp_path, "get_context", ToolContext(get_context=get_context), query="where")

    assert given == {"contextSummary": "where", "matches": []}
    with pytest.raises(ToolFailed, match="memory is not available"):
        await call(tmp_path, "get_context", query="where")
    with pytest.raises(ToolFailed, match="the index is broken"):
        await call(tmp_path, "get_context", ToolContext(get_context=fail), query="where")


async def test_a_person_is_asked(tmp_path: Path) -> None:
    async def ask(question: str, step_key: str) -> str:
        return f"{question} Yes, {step_key}."

    context = ToolContext(ask_person=ask, step_key="3/1")
    given = await call(tmp_path, "request_user_input", context, question="Now?")

    assert given == {"answer": "Now? Yes, 3/1."}
    with pytest.raises(ToolFailed, match="no person to ask"):
        await call(tmp_path, "request_user_input", question="Now?")


@pytest.mark.parametrize("name", sorted(NAMES))
async def test_wrong_arguments_are_told(tmp_path: Path, name: str) -> None:
    tool: Tool | None = await toolbox_of(tmp_path).find(name)
    assert tool is not None

    with pytest.raises(ToolFailed, match="wrong arguments"):
        await tool.call({"unknown": 1}, ToolContext())
