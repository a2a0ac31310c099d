"""The examples run as they stand, with the small embedded model: shapes are looked at, not wisdom."""

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.command_line import weft as command
from tests.embedded_model import SMOLLM2, require
from weft.app.app import App
from weft.app.templates import read_templates
from weft.clock import ManualClock
from weft.engine.scheduler import Scheduler
from weft.evaluator.results import TaskResult
from weft.runs.files import find_files
from weft.tasks.flow import Flow
from weft.tasks.record import Origin, Status, Task

EXAMPLES = Path(__file__).parents[2] / "examples"
PAGE = EXAMPLES.parent / "docs" / "howto" / "examples.md"

SUBJECTS = ("Add a dark theme", "Fix the date of exports")

Tree = list[tuple[int, str, Status]]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with the examples, whose default model is the small one."""
    require("smollm2")
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns(".*", "__pycache__"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WEFT_MODEL", SMOLLM2)
    monkeypatch.setenv("WEFT_DB", str(tmp_path / "weft.db"))
    return tmp_path


async def run(name: str, **inputs: Any) -> tuple[TaskResult, Tree]:
    """Return the result of an example, and the tree of its steps."""
    async with await App.open() as app:
        result = await weft.arun(Path("examples", name), app=app, **inputs)
        return result, tree(await app.flow_of(result.notes["root_id"]))


def tree(flow: Flow) -> Tree:
    return [(depth, task.name, task.status) for task, depth in flow.walk()]


def named(flow: Flow, name: str) -> Task:
    (task,) = [task for task in flow if task.name == name]
    return task


def fits(value: Any, shape: dict[str, Any]) -> bool:
    """Whether an object has these fields, each of this type or one of these values."""
    return value.keys() == shape.keys() and all(
        isinstance(value[key], wanted) if isinstance(wanted, type) else value[key] in wanted
        for key, wanted in shape.items()
    )


def commit(folder: Path) -> None:
    """Make a repository with two commits."""
    git = ("git", "-c", "user.name=A", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")
    subprocess.run([*git, "init", "-q"], cwd=folder, check=True)
    for subject in SUBJECTS:
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", subject], cwd=folder, check=True)


def flow_of(path: str) -> Any:
    return json.loads(Path(path).read_text())


async def register(app: App, folder: str) -> None:
    await app.library.add(read_templates([folder]).templates)


def test_a_source_file_is_reviewed_and_the_verdict_is_json(project: Path) -> None:
    (project / "largest.py").write_text("def largest(numbers):\n    return min(numbers)\n")

    ran = command(
        "run",
        "examples/review.xml",
        "path=largest.py",
        db=str(project / "s.db"),
        cwd=project,
        WEFT_MODEL=SMOLLM2,
    )

    assert ran.code == 0, ran.err
    assert fits(ran.json, {"purpose": str, "mistakes": list, "verdict": ("accept", "change")})
    assert all(fits(mistake, {"name": str, "problem": str}) for mistake in ran.json["mistakes"])
    assert re.search(r"✔ review  [0-9a-f]{8}.*\n└─ ✔ review .*\n1 step, 1 model call, \d+ tokens", ran.err)


async def test_the_example_of_the_readme_asks_about_new_commits_only(project: Path) -> None:
    commit(project)

    result, steps = await run("commits.sexp")

    assert [one["commit"] for one in result.value] == list(SUBJECTS[::-1])
    assert all(one["kind"] in ("code", "tests", "docs") for one in result.value)
    assert [name for _, name, _ in steps] == ["commits", "Read the log", "sort-commit", "sort-commit"]
    again, _ = await run("commits.sexp")
    assert again.value == result.value
    async with await App.open() as app:
        flow = await app.flow_of(again.notes["root_id"])
    linked = [task.name for task in flow if task.origin_type is Origin.LINK]
    assert linked == ["sort-commit"] * len(SUBJECTS)


async def test_a_folder_is_inspected_without_a_model(project: Path) -> None:
    (project / "short.py").write_text("1\n")
    (project / "long.py").write_text("'a long line'\n")

    result, steps = await run("inspect.sexp")

    assert result.value == {
        "python_files": 3,
        "largest_files": ["./examples/release_notes/versions.py", "./long.py", "./short.py"],
        "release": "not released yet",
    }
    assert [(name, status) for _, name, status in steps] == [
        ("inspect", Status.COMPLETED),
        ("Count the Python files", Status.COMPLETED),
        ("Find the largest ones", Status.COMPLETED),
        ("Ask for the release", Status.FAILED),
    ]


async def test_a_folder_is_summed_up_file_by_file(project: Path) -> None:
    (project / "notes" / "old").mkdir(parents=True)
    (project / "notes" / "a.md").write_text("Pages are cached for an hour.")
    (project / "notes" / "b.md").write_text("Images are cached for a day.")

    result, steps = await run("summarize_folder.sexp", folder="notes")

    assert fits(result.value, {"summaries": list, "digest": str})
    assert [one["path"] for one in result.value["summaries"]] == ["notes/a.md", "notes/b.md"]
    assert all(isinstance(one["summary"], str) for one in result.value["summaries"])
    assert steps == [
        (0, "summarize_folder", Status.COMPLETED),
        (1, "summarize-folder", Status.COMPLETED),
        (2, "system:list_directory", Status.COMPLETED),
        (2, "system:read_files", Status.COMPLETED),
        (2, "summarize", Status.COMPLETED),
        (2, "summarize", Status.COMPLETED),
        (2, "add-to-digest", Status.COMPLETED),
    ]


async def test_a_function_is_written_until_its_test_passes_or_the_rounds_are_over() -> None:
    result, steps = await run("until_tests_pass.sexp")

    assert fits(result.value, {"plan": str, "code": str})
    rounds, end = result.notes["iterations"], result.notes["terminated_by"]
    assert end == "success" or (rounds, end) == (3, "max_iterations")
    names = [name for depth, name, _ in steps if depth == 2]
    assert names == ["write-function", "Test it"] * rounds


async def test_a_report_is_written_every_night(project: Path) -> None:
    commit(project)
    document = flow_of("examples/nightly/flow.json")
    async with await App.open() as app:
        await register(app, "examples/nightly")
        definition = (await app.submit(document)).root
        times = command(
            "schedule", "next", definition.id, "-n", "2", "--json", db=str(project / "weft.db")
        ).json
        due = datetime.fromisoformat(times["next"][0])
        clock = ManualClock(due + timedelta(seconds=1))

        (firing,) = await Scheduler(app.store, clock).fire_due()
        assert firing.run is not None
        await app.wait(firing.run.root.id)
        flow = await app.flow_of(firing.run.root.id)
        definition = await app.get(definition.id)

    assert firing.due_at == due.astimezone(UTC)
    assert flow.root.origin_type is Origin.COPY
    assert (definition.status, definition.run_count) == (Status.PENDING, 1)
    assert tree(flow) == [
        (0, "nightly", Status.COMPLETED),
        (1, "report", Status.COMPLETED),
        (2, "nightly_report", Status.COMPLETED),
        (1, "commits", Status.COMPLETED),
    ]
    (line, end) = (project / "nightly.jsonl").read_text().split("\n")
    assert end == ""
    assert fits(json.loads(line), {"headline": str, "points": list})


async def test_a_message_is_sorted_and_the_cond_follows_the_json() -> None:
    result, steps = await run("triage.xml", message="The app crashes when I press Save.")

    replies: dict[str, dict[str, Any]] = {
        "Write a bug report": {"title": str, "steps": list},
        "Write a short reply": {"reply": str},
    }
    *_, first, second = [name for _, name, _ in steps]
    assert first == "Sort the message"
    assert fits(result.value, replies[second])
    assert {status for _, _, status in steps} == {Status.COMPLETED}
    again, _ = await run("triage.xml", message="The app crashes when I press Save.")
    assert again.content == result.content
    assert "reused" in again.notes


async def test_a_flow_mixes_a_command_a_function_and_a_template(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(project)
    monkeypatch.chdir(project / "examples" / "release_notes")
    async with await App.open() as app:
        await register(app, "notes.xml")
        summary = await app.run(flow_of("flow.json"))
        flow = await app.flow_of(summary.root_id)

    assert {task.status for task in flow} == {Status.COMPLETED}
    result = named(flow, "release").result or {}
    assert result["count"] == 3
    version = (named(flow, "version").result or {})["version"]
    assert re.fullmatch(r"\d+\.\d+\.0", version)
    notes = named(flow, "notes")
    assert fits((notes.result or {})["parsedContent"], {"title": str, "changes": list})
    (step,) = [task for task in flow if task.parent_id == notes.id]
    assert "\n".join(SUBJECTS[::-1]) in json.dumps(step.params, ensure_ascii=False).replace("\\n", "\n")
    assert f"Version {version}" in json.dumps(step.params)


def test_every_example_has_its_place_on_the_page_and_says_its_command() -> None:
    programs = {path.relative_to(EXAMPLES) for path in find_files(EXAMPLES)}
    flows = {path.relative_to(EXAMPLES) for path in EXAMPLES.glob("*/flow.json")}
    page = PAGE.read_text()
    for path in programs | flows:
        assert f"../../examples/{path}" in page, path
    for path in [*EXAMPLES.glob("*.xml"), *EXAMPLES.glob("*.sexp")]:
        assert f"weft run examples/{path.name}" in path.read_text(), path
    for path in EXAMPLES.glob("*/flow.json"):
        assert "weft flow run" in path.read_text(), path
