"""Effects without a store: scripts really run, the rest is not there yet."""

import asyncio
import logging
import os
from pathlib import Path

import pytest

import weft
from tests.contract.test_effects import model_step
from weft.evaluator.effects import ScriptRun, Step
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure
from weft.executor_settings import CommandSettings
from weft.local_effects import LocalEffects

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
        (ScriptRun(argv=("cat",)), "program 'cat' may not run"),
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


async def test_there_is_no_model() -> None:
    with pytest.raises(TaskFailed, match="no model is configured") as caught:
        await LocalEffects().call_model(*model_step("x"))

    assert caught.value.result().notes["error"]["reason"] == "configuration_error"


def test_messages_go_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="weft"):
        weft.evaluate('(log-message "hello")')

    assert caplog.messages == ["hello"]


def test_a_schema_file_lies_beside_the_program(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("true")

    assert LocalEffects().schema_text("a.json", str(tmp_path / "program.sexp")) == "true"
    with pytest.raises(FileNotFoundError):
        LocalEffects().schema_text("a.json", "<eval>")
