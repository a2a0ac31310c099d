"""Tasks that aider does: which files it gets, and what becomes of its result."""

import json
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.aider_projects import KEY, a_repository
from tests.aider_stand_in import a_stand_in
from weft import testing
from weft.effects.local import LocalEffects
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure, TaskResult
from weft.language.diagnostics import InvalidProgram
from weft.runs.files import load_library

USAGE = {
    "input_tokens": 10,
    "output_tokens": 5,
    "tokens": 15,
    "cost": 0.5,
    "turns": 1,
    "model": "served:good",
}

EDIT = "open('calc.py', 'w').write('x = 1\\n')"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with a weft.toml, which is the working folder."""
    root = a_repository(tmp_path / "root")
    (root / "notes.md").write_text("# Shopping\nmilk and eggs\n")
    (root / "prices.py").write_text("def discount(price):\n    return price\n")
    monkeypatch.chdir(root)
    monkeypatch.setenv("SERVED_KEY", KEY)
    monkeypatch.delenv("WEFT_MODEL", raising=False)
    return root


def use(project: Path, act: str = EDIT) -> None:
    """Have tasks use a stand-in for aider."""
    program = a_stand_in(project.parent, act)
    (project / "weft.toml").write_text(f"""
[models]
default = "served:good"
[models.providers.served]
base_url = "http://127.0.0.1:9/v1"
api_key_env = "SERVED_KEY"
[executors.aider]
program = "{program}"
""")


async def evaluate(program: str, effects: LocalEffects | None = None) -> TaskResult:
    effects = effects or LocalEffects()
    try:
        result = await weft.evaluate_async(program, effects=effects, library=load_library("weft:aider"))
    finally:
        await effects.close()
    assert isinstance(result, TaskResult)
    return result


def given_files(result: TaskResult) -> list[str]:
    """Return the files on the command line."""
    argv: list[str] = json.loads(result.value["transcript"])["argv"]
    return [Path(argv[place + 1]).name for place, word in enumerate(argv) if word == "--file"]


async def test_a_call_of_the_template_gives_the_diff_and_what_it_took(project: Path) -> None:
    use(project)
    effects = LocalEffects()

    result = await evaluate('(aider_automatic "Fix add" :file_context (list "calc.py"))', effects)

    assert "+x = 1" in result.content
    assert (result.value["edited_files"], result.value["commit"]) == (["calc.py"], None)
    assert result.notes["usage"] == USAGE
    assert json.loads(result.value["transcript"])["prompt"] == "Fix add"
    assert given_files(result) == ["calc.py"]
    assert [(entry.model, entry.cost) for entry in effects.ledger.entries] == [("served:good", 0.5)]


async def test_files_of_the_call_win_over_memory(project: Path) -> None:
    use(project)

    result = await evaluate('(aider_automatic "Fix discount" :files (list "calc.py" "new.py"))')

    assert given_files(result) == ["calc.py", "new.py"]
    assert result.notes["aider"] == {"files": ["calc.py", "new.py"], "files_from": "task"}


async def test_without_files_memory_finds_them(project: Path) -> None:
    use(project)
    effects = LocalEffects(memory=testing.memory(project))

    result = await evaluate('(aider_automatic "Correct the discount of a price")', effects)

    assert given_files(result)[0] == "prices.py"
    assert "weft.toml" not in given_files(result)  # which tells of prices, too
    assert result.notes["aider"]["files_from"] == "memory"


async def test_a_template_of_the_specification_works_with_its_subtype(project: Path) -> None:
    use(project)

    result = await evaluate("""
      <task type="atomic" subtype="aider_automatic">
        <description>Execute Aider code editing for the shop</description>
        <inputs><input name="prompt">Rename discount</input></inputs>
        <file_paths><path>prices.py</path></file_paths>
      </task>""")

    assert json.loads(result.value["transcript"])["prompt"] == "Rename discount"
    assert given_files(result) == ["prices.py"]


async def test_a_task_may_name_its_model(project: Path) -> None:
    use(project)

    result = await evaluate(
        '(aider_automatic "Fix add" :file_context (list "calc.py") :model "served:other")'
    )

    assert result.value["model"] == "served:other"


@pytest.mark.parametrize(
    ("act", "program", "reason"),
    [
        ("sys.exit(3)", '(aider_automatic "x" :file_context (list "calc.py"))', "tool_execution_error"),
        (EDIT, '(aider_automatic "x" :file_context (list "../x.py"))', "configuration_error"),
        (EDIT, '(aider_interactive "x" :file_context (list "calc.py"))', "configuration_error"),
        (EDIT, '(aider_automatic " " :file_context (list "calc.py"))', "input_validation_failure"),
        (
            "time.sleep(600)",
            '(task :instructions "x" :subtype "aider_automatic" :timeout 0.5)',
            "execution_timeout",
        ),
    ],
)
async def test_a_failure_has_its_reason(project: Path, act: str, program: str, reason: str) -> None:
    use(project, act)

    with pytest.raises(TaskFailed) as caught:
        await evaluate(program)

    assert isinstance(caught.value.error, TaskFailure)
    assert caught.value.error.reason == reason


async def test_it_is_an_executor_and_so_a_tool(project: Path) -> None:
    use(project)
    with (project / "weft.toml").open("a") as file:
        file.write('[tools]\nexecutors = ["aider"]\n')
    effects = LocalEffects()

    try:
        value: Any = await weft.evaluate_async(
            '(executor:aider :prompt "Fix add" :files (list "calc.py"))', effects=effects
        )
    finally:
        await effects.close()

    assert value["edited_files"] == ["calc.py"]


def test_only_libraries_that_come_with_weft_have_the_name_of_one() -> None:
    assert {task.name for task in load_library("weft:aider")} == {"aider_automatic", "aider_interactive"}
    assert "evaluate" in load_library("weft:prompts")
    with pytest.raises(InvalidProgram, match="choose one of weft:aider, weft:prompts"):
        load_library("weft:none")


async def test_what_a_failed_one_took_is_told_and_entered(project: Path) -> None:
    use(project, "sys.exit(3)")
    effects = LocalEffects()

    with pytest.raises(TaskFailed) as caught:
        await evaluate('(aider_automatic "x" :file_context (list "calc.py"))', effects)

    assert caught.value.result().notes["usage"] == USAGE
    assert [(entry.model, entry.cost) for entry in effects.ledger.entries] == [("served:good", 0.5)]


ALONE = """
mine = "busy/" + str(os.getpid())
open(mine, "w").close()
until = time.monotonic() + 0.3
while time.monotonic() < until:
    if len(os.listdir("busy")) > 1:
        sys.exit(7)
    time.sleep(0.01)
os.remove(mine)
"""


async def test_one_at_a_time_works_in_a_repository(project: Path) -> None:
    (project / "busy").mkdir()
    use(project, ALONE)
    effects = LocalEffects()

    try:
        results = await weft.evaluate_async(
            '(map (lambda (file) (aider_automatic "x" :files (list file))) (list "calc.py" "prices.py"))',
            effects=effects,
            library=load_library("weft:aider"),
        )
    finally:
        await effects.close()

    assert [result.status for result in results] == ["COMPLETE", "COMPLETE"]
