"""Effects without a store: scripts and tools really run, models answer as told."""

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.given_tools import GivenTools
from tests.model_calls import a_call, a_step
from weft.config.sections import CommandSettings, HandlerSettings, ToolsSettings
from weft.effects.local import LocalEffects
from weft.errors import WeftError
from weft.evaluator.budget import Scope
from weft.evaluator.budget_account import ScopeAccount
from weft.evaluator.effects import Files, ScriptRun, Step, ToolCall
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure, TaskResult
from weft.llm.errors import ModelError
from weft.llm.events import ModelEvent, TextArrived, TurnEnded
from weft.llm.protocol import StaticModels
from weft.llm.providers import access
from weft.testing.scripted_model import ScriptedModel, tool_use
from weft.tools import open_toolbox

ANY = CommandSettings()


async def run(script: ScriptRun, commands: CommandSettings = ANY) -> tuple[str, str, int, bool]:
    outcome = await LocalEffects(commands=commands).run_script(Step("1", script), script)
    return outcome.stdout, outcome.stderr, outcome.exit_code, outcome.is_timed_out


async def test_a_script_gets_its_input_and_environment() -> None:
    command = ("sh", "-c", 'cat; echo "$word" >&2; exit 3')
    script = ScriptRun(argv=command, stdin="in", environment={"word": "$(ls) {{x}}"})

    assert await run(script) == ("in", "$(ls) {{x}}\n", 3, False)


async def test_a_script_that_takes_too_long_is_ended() -> None:
    stdout, _, exit_code, is_timed_out = await run(
        ScriptRun(argv=("sh", "-c", "echo a; sleep 600"), timeout_seconds=0.3)
    )

    assert (stdout, exit_code, is_timed_out) == ("a\n", -1, True)


async def test_a_script_that_is_cancelled_is_ended(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    task = asyncio.ensure_future(run(ScriptRun(argv=("sh", "-c", f"echo $$ > {pipe}; sleep 600"))))
    script = int(await asyncio.to_thread(pipe.read_text))

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    with pytest.raises(ProcessLookupError):
        os.kill(script, 0)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (ScriptRun(argv=("cat",)), "executable 'cat' may not run"),
        (ScriptRun(shell="echo"), "'shell' is off"),  # noqa: S604 - that is what is tested
        (ScriptRun(argv=("echo",), environment={"LD_PRELOAD": "x"}), "may not set LD_PRELOAD"),
        (ScriptRun(argv=("echo",), stdin="\ud800"), "cannot be started"),
    ],
)
async def test_what_may_not_run_is_a_configuration_error(script: ScriptRun, message: str) -> None:
    with pytest.raises(TaskFailed, match=message) as caught:
        await run(script, CommandSettings(allow=("echo",)))

    assert isinstance(caught.value.error, TaskFailure)
    assert caught.value.error.reason == "configuration_error"


def with_model(*answers: Any, **given: Any) -> tuple[LocalEffects, ScriptedModel]:
    model = ScriptedModel(list(answers) or ["ok"])
    return LocalEffects(models=StaticModels(model), **given), model


async def ask(effects: LocalEffects, **fields: Any) -> TaskResult:
    call = a_call(**fields)
    return await effects.call_model(a_step(call), call)


async def test_the_model_that_a_task_names_comes_before_the_default_one() -> None:
    one, other = ScriptedModel(["one"], id="test:one"), ScriptedModel(["other"], id="test:other")
    effects = LocalEffects(models=StaticModels({"test:one": one, "test:other": other}), model="test:other")

    assert (await ask(effects)).content == "other"
    assert (await ask(effects, model="test:one")).content == "one"


async def test_a_model_that_is_not_there_fails_the_task() -> None:
    effects = LocalEffects(models=StaticModels({"test:one": ScriptedModel(["one"])}))

    with pytest.raises(TaskFailed, match="there is no model 'test:none'") as caught:
        await ask(effects, model="test:none")

    error = caught.value.result().notes["error"]
    assert (error["type"], error["path"], error["invalidModel"]) == ("VALIDATION_ERROR", "model", True)


async def test_a_package_that_is_not_installed_is_a_dependency_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key-of-nobody")
    monkeypatch.setattr(access, "is_installed", lambda package: package != "anthropic")
    effects = LocalEffects(folder=tmp_path)

    with pytest.raises(TaskFailed, match="needs an extra package") as caught:
        await ask(effects, model="anthropic:some")
    await effects.close()

    assert caught.value.result().notes["error"]["reason"] == "dependency_error"


async def test_a_tool_whose_module_cannot_be_imported_is_a_dependency_error(tmp_path: Path) -> None:
    (tmp_path / "weft_no_such_tools.py").write_text("import weft_package_that_is_not_there")
    toolbox = open_toolbox(ToolsSettings(modules=("weft_no_such_tools",)), tmp_path, {})
    model = ScriptedModel(["never asked"])
    effects = LocalEffects(models=StaticModels(model), tools=toolbox)
    call = ToolCall(tool="shop:open")

    for attempt in (effects.call_tool(Step("1", call), call), ask(effects, tools=("shop:open",))):
        with pytest.raises(TaskFailed, match="weft_package_that_is_not_there") as caught:
            await attempt
        assert caught.value.result().notes["error"]["reason"] == "dependency_error"


@pytest.mark.parametrize("path", ["gone.txt", "/etc/passwd", "b.bin"])
async def test_a_named_file_that_cannot_be_read_fails_the_task_before_the_model_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("text of a")
    (tmp_path / "b.bin").write_bytes(b"\x00\x01")
    effects, model = with_model()

    with pytest.raises(TaskFailed) as caught:
        await ask(effects, files=Files("literal", ("a.txt", path)))

    assert isinstance(caught.value.error, TaskFailure)
    assert caught.value.error.reason == "context_retrieval_failure"
    assert f"'{path}'" in caught.value.error.message
    assert model.payloads == []


async def test_a_relative_path_begins_at_the_project_folder_or_at_the_first_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "weft.toml").write_text('[tools]\nroots = ["src"]\n')
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "a.txt").write_text("text of a")
    monkeypatch.chdir(tmp_path / "src" / "deep")
    effects, model = with_model("one", "two")

    await ask(effects, files=Files("literal", ("src/a.txt",)))
    await ask(effects, files=Files("literal", ("a.txt",)))

    assert ["text of a" in (payload.context or "") for payload in model.payloads] == [True, True]
    with pytest.raises(TaskFailed):
        await ask(effects, files=Files("literal", ("../a.txt",)))


async def test_optional_files_that_cannot_be_read_are_warnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("text of a")
    (tmp_path / "b.bin").write_bytes(b"\x00\x01")
    effects, model = with_model()

    result = await ask(
        effects,
        files=Files("literal", ("a.txt", "none.txt", "/etc/passwd", "b.bin", "a.txt"), optional=(1, 2, 3)),
    )

    context = model.payloads[0].context
    assert context is not None
    assert context.count("text of a") == 1
    assert "root:" not in context
    assert [warning.partition(" skipped")[0] for warning in result.notes["warnings"]] == [
        "file 'none.txt'",
        "file '/etc/passwd'",
        "file 'b.bin'",
    ]


async def test_a_script_gets_what_git_sets_for_a_hook_and_what_the_settings_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("GIT_INDEX_FILE", "NODE_OPTIONS", "CI", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, name.lower())
    effects = LocalEffects(commands=CommandSettings(environment=("CI", "NODE_*")))
    run = ScriptRun(argv=("env",), description="print it")

    outcome = await effects.run_script(Step("1", run), run)

    lines = outcome.stdout.splitlines()
    assert {"GIT_INDEX_FILE=git_index_file", "NODE_OPTIONS=node_options", "CI=ci"} <= set(lines)
    assert "openai_api_key" not in outcome.stdout


async def test_a_command_lists_files_one_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b.txt").write_text("text of a b")
    (tmp_path / "c.txt").write_text("text of c")
    effects, model = with_model(commands=ANY)

    result = await ask(effects, files=Files("command", text="printf 'a b.txt\\n\\nc.txt\\n$HOME\\n'"))

    context = model.payloads[0].context or ""
    assert "text of a b" in context
    assert "text of c" in context
    assert len(result.notes["warnings"]) == 1
    assert "$HOME" in result.notes["warnings"][0]  # no shell reads it


async def test_a_command_that_ends_badly_is_a_warning_if_it_lists_files_and_else_fails_the_task() -> None:
    effects, _ = with_model(commands=CommandSettings(allow=("sh",)))

    with pytest.raises(TaskFailed, match=r"exited with code 4: oops \(it listed no files\)") as failed:
        await ask(effects, files=Files("command", text="sh -c 'echo oops >&2; exit 4'"))
    assert failed.value.result().notes["error"]["reason"] == "context_retrieval_failure"
    result = await ask(effects, files=Files("command", text="sh -c 'echo gone.py; echo oops >&2; exit 4'"))
    assert result.notes["warnings"][0] == "the command of file_paths exited with code 4: oops"

    for command in ("cat x", "", "echo 'open"):
        with pytest.raises(TaskFailed) as caught:
            await ask(effects, files=Files("command", text=command))
        assert caught.value.result().notes["error"]["reason"] == "configuration_error"


async def test_the_ledger_knows_who_spent_what() -> None:
    effects, _ = with_model(*["ok"] * 3)
    program = '(deftask say (x) :instructions "{{x}}") (map say (list "a" "b")) (task :instructions "c")'

    await weft.evaluate_async(program, effects=effects)

    assert [(one.step_key, one.template) for one in effects.ledger.entries] == [
        ("1/1/1", "say"),
        ("1/2/1", "say"),
        ("2", None),
    ]
    assert effects.ledger.by_step()["1"].turns == 2


async def test_a_failed_task_is_in_the_ledger_too() -> None:
    effects, _ = with_model(*[tool_use("x")] * 9, handler=HandlerSettings(max_turns=2))

    with pytest.raises(TaskFailed, match="2 turns"):
        await ask(effects)

    assert effects.ledger.total().turns == 2


async def test_budget_ledger_and_notes_agree_on_a_stream_that_was_cut() -> None:
    cut = ModelError("connection_error", "cut", partial_text="word " * 400)
    effects, _ = with_model(cut, is_streaming=True)
    scope = Scope({"tokens": 10_000})
    call = a_call()

    with pytest.raises(TaskFailed) as caught:
        await effects.call_model(a_step(call), call, ScopeAccount(scope, "spender"))

    error = caught.value.error
    assert isinstance(error, TaskFailure)
    assert scope.used["tokens"] == effects.ledger.total().tokens == (error.notes or {})["usage"]["tokens"]
    assert effects.ledger.total().output_tokens > 400


async def test_events_are_handed_on() -> None:
    events: list[ModelEvent] = []
    effects, _ = with_model("one two", on_event=events.append, is_streaming=True)

    await ask(effects)

    assert [type(event) for event in events] == [TextArrived, TextArrived, TurnEnded]


async def test_a_tool_of_the_project_is_called_by_a_program_and_by_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("text of a")
    effects, model = with_model(tool_use("system:read_files", paths=["a.txt"]), "done")
    program = """
    (list (system:read_files (list "a.txt"))
          (task :instructions "read" :tools ("system:read_files")))"""

    direct, asked = await weft.evaluate_async(program, effects=effects)

    assert "text of a" in str(direct)
    assert asked.notes["tools"] == ["system:read_files"]
    assert "text of a" in model.payloads[1].messages[-1].content


async def test_a_pure_program_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weft.toml").write_text("not TOML")

    assert await weft.evaluate_async("(+ 1 1)") == 2
    with pytest.raises(WeftError, match="not TOML"):
        await weft.evaluate_async('(task :instructions "x")')


async def test_what_was_given_is_closed() -> None:
    tools = GivenTools()
    effects, _ = with_model(tools=tools)

    await effects.close()

    assert tools.is_closed


def test_messages_go_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="weft"):
        weft.evaluate('(log-message "hello")')

    assert caplog.messages == ["hello"]


def test_a_schema_file_lies_beside_the_program(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("true")

    assert LocalEffects().schema_text("a.json", str(tmp_path / "program.sexp")) == "true"
    with pytest.raises(FileNotFoundError):
        LocalEffects().schema_text("a.json", "<eval>")


async def test_scripts_of_different_folders_are_not_reused_for_each_other(tmp_path: Path) -> None:
    script = ScriptRun(argv=("ls",))
    here, there = (LocalEffects(folder=folder) for folder in (tmp_path / "a", tmp_path / "b"))

    assert await here.result_depends_on(script) != await there.result_depends_on(script)
