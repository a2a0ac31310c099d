"""One run of aider: what it is given, what it may do, and how it ends."""

import asyncio
import io
import json
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema_rs
import psutil
import pytest

from tests.aider_projects import KEY, a_repository
from tests.aider_stand_in import a_stand_in
from tests.executor_work import work_of
from weft.config.sections import (
    AiderSettings,
    CommandSettings,
    ExecutorSettings,
    ModelParameters,
    ModelsSettings,
    ProviderSettings,
)
from weft.executors.invoke import invoke_executor
from weft.executors.protocol import ExecutionFailed
from weft.integrations.aider.executor import Aider
from weft.integrations.aider.models import AiderModels
from weft.integrations.aider.request import AiderInputs, AiderResult
from weft.integrations.aider.runner import AiderRunner

MODELS = ModelsSettings(
    default="served:good",
    providers={
        "served": ProviderSettings(kind="openai", base_url="http://127.0.0.1:9/v1", api_key_env="SERVED_KEY")
    },
    settings={"served:good": ModelParameters(input_price=0.0, output_price=0.0)},
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return a_repository(tmp_path / "root")


def runner(
    root: Path, program: Path | str | None, *, allow: tuple[str, ...] | None = None, **settings: Any
) -> AiderRunner:
    return AiderRunner(
        ExecutorSettings(
            aider=AiderSettings(program=None if program is None else str(program), **settings),
            command=CommandSettings(grace_seconds=0.1, allow=allow),
        ),
        [root],
        AiderModels(MODELS, {"SERVED_KEY": KEY}),
        say=pytest.fail,
        kept_files=["Servers.json"],
        environment={"PATH": "/nowhere", "WEFT_CACHE": str(root.parent / "cache")},
    )


async def run(root: Path, act: str = "pass", **inputs: Any) -> AiderResult:
    """Run the stand-in, and return the result."""
    program = a_stand_in(root.parent, act)
    return await runner(root, program).run(AiderInputs(**{"prompt": "Fix add", **inputs}), work_of())


async def refusal(root: Path, act: str = "pass", **inputs: Any) -> ExecutionFailed:
    with pytest.raises(ExecutionFailed) as caught:
        await run(root, act, **inputs)
    return caught.value


async def test_the_key_and_the_prompt_are_not_on_the_command_line(root: Path) -> None:
    result = await run(root, files=["calc.py"])

    # The transcript of the stand-in is how it was called; results are redacted.
    said = json.loads(result.transcript)
    assert said["environment"]["OPENAI_API_KEY"] == "[secret SERVED_KEY]"
    assert said["environment"]["OPENAI_API_BASE"] == "http://127.0.0.1:9/v1"
    assert said["prompt"] == "Fix add"
    assert "Fix add" not in said["argv"]
    assert "[secret SERVED_KEY]" not in " ".join(said["argv"])
    assert said["argv"][said["argv"].index("--file") + 1] == str(root / "calc.py")
    assert said["folder"] == str(root)


async def test_the_executor_gives_what_its_schema_says(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVED_KEY", KEY)
    settings = ExecutorSettings(aider=AiderSettings(program=str(a_stand_in(root.parent))))

    result = await invoke_executor(
        Aider(settings, [root], MODELS, say=pytest.fail), work_of({"prompt": "Fix add"})
    )

    assert result["exit_code"] == 0
    jsonschema_rs.validate(
        {**Aider.output_schema, "required": list(Aider.output_schema["properties"])}, result
    )


async def test_it_gets_nothing_else_of_the_environment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIDER_TEST_CMD", "touch x")
    monkeypatch.setenv("OTHER_API_KEY", "x")

    said = json.loads((await run(root)).transcript)

    assert {"AIDER_TEST_CMD", "OTHER_API_KEY"}.isdisjoint(said["environment"])


async def test_configuration_in_the_folder_is_not_read(root: Path) -> None:
    assert json.loads((await run(root)).transcript)["config"] == []


@pytest.mark.parametrize("prompt", ["/run touch x", "!touch x", "\n!ls"])
async def test_a_prompt_is_no_command(root: Path, prompt: str) -> None:
    said = json.loads((await run(root, prompt=prompt)).transcript)

    assert said["prompt"] == f"Task: {prompt}"


async def test_the_result_says_what_it_took(root: Path) -> None:
    result = await run(root, "open('calc.py', 'w').write('x = 1\\n')")

    assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.cost) == (10, 5, 0.5)
    assert (result.exit_code, result.edited_files, result.commit) == (0, ("calc.py",), None)
    assert "+x = 1\n" in result.diff


BREAKOUTS = (
    "open('../outside', 'w')",
    "open('link', 'w')",
    "open('.git/hooks/pre-commit', 'w')",
    "open('.GIT/config', 'a')",
    "open('sub/weft.toml', 'w')",
    "open('.aider.conf.yml', 'w')",
    "os.rename('calc.py', '../outside')",
    "os.link('calc.py', '../outside')",
    "os.symlink('/etc', '../outside')",
    "os.mkdir('../outside')",
    "os.remove('.git/HEAD')",
    "os.chmod('.git/HEAD', 0)",
    "os.truncate('weft.toml', 0)",
    "os.open('../outside', os.O_RDWR | os.O_CREAT)",
    "subprocess.run(['sh', '-c', 'touch ../outside'])",
    "os.system('touch ../outside')",
    "os.posix_spawn('/bin/touch', ['touch', '../outside'], {})",
    "os.execv('/bin/touch', ['touch', '../outside'])",
)

TRY_ALL = f"""for breakout in {BREAKOUTS!r}:
    try:
        exec(breakout)
    except PermissionError as error:
        assert "weft does not let aider" in str(error), error
    else:
        print("it could", breakout)
        sys.exit(1)
open("calc.py", "w").write("none\\n")"""


async def test_it_cannot_leave_its_folders_or_start_programs(root: Path) -> None:
    (root / "link").symlink_to(root.parent / "outside")
    (root / "sub").mkdir()
    (root / "weft.toml").write_text("# mine")

    result = await run(root, TRY_ALL)

    assert result.edited_files == ("calc.py",)  # all of them were tried, and what it may do it did
    assert not (root.parent / "outside").exists()
    assert (root / "weft.toml").read_text() == "# mine"


async def test_it_cannot_write_a_store_wherever_it_lies(root: Path) -> None:
    with closing(sqlite3.connect(root / "data.db")) as store:
        store.execute("CREATE TABLE t (x)")
        content = (root / "data.db").read_bytes()
        act = """for path in ("data.db", "data.db-wal", "data.db-journal"):
    try:
        open(path, "w")
    except PermissionError as error:
        assert "a database" in str(error), error
    else:
        sys.exit(1)
open("calc.py", "w").write("none\\n")"""

        result = await run(root, act)

    assert result.edited_files == ("calc.py",)
    assert (root / "data.db").read_bytes() == content


async def test_it_cannot_write_the_file_that_the_settings_name_servers_in(root: Path) -> None:
    act = """try:
    open("Servers.json", "w")
except PermissionError:
    open("calc.py", "w").write("none\\n")"""

    assert (await run(root, act)).edited_files == ("calc.py",)
    refused = runner(root, None).refusal_of("Servers.json")
    assert refused is not None
    assert "decides what may run" in refused


async def test_it_may_start_git(root: Path) -> None:
    result = await run(root, "subprocess.run(['git', 'commit', '--allow-empty', '-qm', 'x'], check=True)")

    assert len(result.commits) == 1
    assert result.commit == result.commits[0]


async def test_one_that_hangs_is_called_off(root: Path) -> None:
    error = await refusal(root, "time.sleep(600)", timeout_seconds=0.5)

    assert error.message == "aider did not end within 0.5 s"
    assert not error.is_permanent
    assert (error.details["exit_code"], error.details["diff"]) == (None, "")


async def test_one_that_is_cancelled_is_ended(root: Path) -> None:
    act = "with open('pipe', 'w') as pipe:\n    pipe.write(str(os.getpid()))\ntime.sleep(600)"
    pipe = root / "pipe"
    os.mkfifo(pipe)
    task = asyncio.ensure_future(run(root, act))
    pid = int(await asyncio.to_thread(pipe.read_text))

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not psutil.pid_exists(pid)


async def test_one_whose_model_did_not_answer_has_failed(root: Path) -> None:
    act = "open(given['--analytics-log'], 'w')\nprint('no credit left')"

    error = await refusal(root, act)

    assert error.message == "aider got no response from the model: no credit left"


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (["../outside.py"], "leads out of the roots"),
        (["/etc/passwd"], "leads out of the roots"),
        (["link/passwd"], "leads out of the roots"),
        ([".git/config"], "tools may not access"),
        (["weft.toml"], "tools may not write it"),
        (["calc.py", "a\0b"], "NUL"),
    ],
)
async def test_a_file_that_may_not_be_edited_is_refused_before_anything_runs(
    root: Path, files: list[str], reason: str
) -> None:
    (root / "link").symlink_to("/etc")

    error = await refusal(root, "open('ran', 'w')", files=files)

    assert reason in error.message
    assert error.is_permanent
    assert not (root / "ran").exists()


async def test_a_folder_outside_of_the_roots_is_refused(root: Path) -> None:
    assert "leads out of the roots" in (await refusal(root, folder="..")).message


async def test_a_new_file_in_a_new_folder_may_be_named(root: Path) -> None:
    act = "os.mkdir('new')\nopen('new/file.py', 'w').write('x')"

    assert (await run(root, act, files=["new/file.py"])).edited_files == ("new/file.py",)


async def test_a_list_of_allowed_programs_holds_for_it(root: Path) -> None:
    with pytest.raises(ExecutionFailed, match=r"executable 'aider' may not run.*has git"):
        await runner(root, None, allow=("git",)).run(AiderInputs(prompt="x"), work_of())


async def test_without_aider_the_failure_says_how_to_get_it(root: Path) -> None:
    with pytest.raises(ExecutionFailed, match=r"aider is not installed: install it") as caught:
        await runner(root, None, install=False).run(AiderInputs(prompt="x"), work_of())

    assert caught.value.is_permanent


async def test_an_interactive_one_needs_a_terminal(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    error = await refusal(root, mode="interactive")

    assert "needs a terminal" in error.message
    assert error.is_permanent


async def test_a_model_that_is_not_there_fails_for_good(root: Path) -> None:
    error = await refusal(root, model="nobody:x")

    assert "aider has no model" in error.message
    assert error.is_permanent
