"""What a run keeps of where it began, on every store: its default model, and its folder."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.engine_bench import QUICK
from tests.runs_bench import MortalStore, RunsBench
from weft.app.app import App
from weft.app.programs import load_program
from weft.config.sections import ModelsSettings, ProviderSettings
from weft.config.settings import Settings
from weft.effects.local import LocalEffects
from weft.language.ast import Template
from weft.language.reading import read_text
from weft.runs.outcome import outcome_of
from weft.runs.program import StoredProgram, program_of
from weft.store.protocol import EVERYONE, TaskStore
from weft.tasks.parsing.problems import InvalidTasks
from weft.tasks.record import Status, Task
from weft.testing import ScriptedModel, models

ASK = '(deftask ask (x) :instructions "{{x}}")\n'
PROVIDERS = {"served": ProviderSettings(kind="openai", base_url="http://127.0.0.1:9/v1")}


@pytest.fixture
def runs(store: TaskStore) -> RunsBench:
    return RunsBench(store)


async def add(app: App, text: str) -> None:
    await app.library.add([form for form in read_text(text, "x").forms if isinstance(form, Template)])


class Project:
    """A process in a project whose settings name a default model; it may die when a script has run."""

    def __init__(self, store: TaskStore, default: str | None, **aliases: str) -> None:
        settings = ModelsSettings(default=default, aliases=aliases, providers=PROVIDERS)
        self.asked: list[str] = []
        self.app = App(
            store,
            settings=Settings(db="unused", models=settings),
            limits=QUICK,
            new_effects=self._effects,
        )

    def _effects(self, program: StoredProgram) -> LocalEffects:
        named = {name: self._model(name) for name in ("served:one", "served:two")}
        return LocalEffects(models=models(named), model=program.model, folder=program.folder)

    def _model(self, name: str) -> ScriptedModel:
        def answer(payload: Any) -> str:
            self.asked.append(name)
            return name

        return ScriptedModel(answer, id=name)

    async def run(self, root_id: Any) -> Task:
        try:
            await self.app.resume(root_id)
            await self.app.wait(root_id)
        finally:
            await self.app.stop(grace_seconds=0)
        return await self.app.store.get(root_id, owner=EVERYONE)


async def test_a_default_model_that_changes_does_not_change_a_run_under_way(runs: RunsBench) -> None:
    first = Project(runs.store, "fast", fast="served:one")
    root_id = await first.app.begin_program(load_program(f'{ASK} (ask "x")'), {}, name="run")

    second = Project(runs.store, "served:two")
    task = await second.run(root_id)

    assert (task.status, second.asked) == (Status.COMPLETED, ["served:one"])
    assert program_of(task).model == "served:one"


async def test_a_task_that_names_a_template_keeps_the_default_model_of_its_first_attempt(
    runs: RunsBench,
) -> None:
    project = Project(runs.store, "served:one")
    await add(project.app, '(deftask greet (x) :instructions "{{x}}")')
    root_id = await project.app.begin([{"name": "g", "schemas": {"method": "greet"}, "inputs": {"x": "1"}}])

    task = await project.run(root_id)

    assert program_of(task).model == "served:one"


async def test_a_run_goes_on_in_the_folder_where_it_began(
    runs: RunsBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
        (folder / "note.txt").write_text(folder.name)
    project = Project(runs.store, "served:one")
    monkeypatch.chdir(here)
    program = load_program('(script :argv ("cat" "note.txt"))')
    root_id = await project.app.begin_program(program, {}, name="run")

    monkeypatch.chdir(there)
    outcome = await outcome_of(runs.store, await project.run(root_id))

    assert outcome.result is not None
    assert outcome.result.content == "here"


async def test_a_run_that_has_begun_in_a_folder_that_is_not_here_says_so(
    runs: RunsBench, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    mortal = MortalStore(runs.store)

    def dying(prompt: str) -> str:
        if prompt == "2":
            mortal.die()
        return prompt

    runs.answer = dying
    program = load_program(f'{ASK} (list (ask "1") (ask "2"))')
    program = program.replace(folder=str(gone))
    root_id = await runs.app().begin_program(program, {}, name="run")
    assert await runs.live(root_id, mortal)
    gone.rmdir()

    await runs.go_on(root_id)

    task = await runs.store.get(root_id, owner=EVERYONE)
    assert task.status is Status.FAILED
    assert f"the run works in {gone}, which does not exist here" in (task.error or "")
    gone.mkdir()
    assert (await runs.go_on(root_id)).status is Status.COMPLETED


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder another user's")
async def test_a_project_of_another_user_never_applies(runs: RunsBench, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "weft.toml").write_text("[executors.command]\nallow = []\n")
    os.chown(theirs, 12345, 12345)
    project = Project(runs.store, "served:one")
    program = load_program('(script :argv ("pwd"))')
    root_id = await project.app.begin_program(program.replace(folder=str(theirs)), {}, name="run")

    outcome = await outcome_of(runs.store, await project.run(root_id))

    assert outcome.result is not None
    assert outcome.result.content == f"{Path.cwd()}\n"


async def test_a_folder_that_everybody_can_write_to_never_applies(runs: RunsBench, tmp_path: Path) -> None:
    everybodys = tmp_path / "everybodys"
    everybodys.mkdir()
    everybodys.chmod(0o1777)
    project = Project(runs.store, "served:one")
    program = load_program('(script :argv ("pwd"))')
    program = program.replace(folder=str(everybodys))

    outcome = await outcome_of(
        runs.store, await project.run(await project.app.begin_program(program, {}, name="run"))
    )

    assert outcome.result is not None
    assert outcome.result.content == f"{Path.cwd()}\n"


async def test_a_client_cannot_choose_whose_settings_apply(runs: RunsBench, tmp_path: Path) -> None:
    app = runs.app()
    document = {
        "name": "run",
        "schemas": {"method": "template"},
        "params": {"program": {"main": {"name": "m", "text": "1", "surface": "sexp"}, "folder": "/"}},
    }

    for submitted in (document, [document], {"task": {"name": "root"}, "children": [{"task": document}]}):
        for accept in (app.submit, app.begin, app.run):
            with pytest.raises(InvalidTasks, match=r"params\.program\.folder is not allowed"):
                await accept(submitted)

    root_id = await app.begin_program(load_program("1"), {}, name="run")
    params = (await app.get(root_id)).params or {}
    moved = {**params, "program": {**params["program"], "folder": str(tmp_path)}}
    with pytest.raises(InvalidTasks, match=r"params\.program\.folder is not allowed"):
        await app.update(root_id, {"params": moved})
    assert (await app.update(root_id, {"params": {**params, "reuse": False}})).params is not None
