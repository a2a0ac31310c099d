"""The static checks with a project's tools and models: one verdict, whoever asks."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from weft.app.app import App
from weft.app.programs import arun
from weft.app.templates import read_templates
from weft.app.wiring import open_store
from weft.cli.check import check
from weft.config.sections import ModelsSettings
from weft.config.settings import Settings
from weft.language.diagnostics import InvalidProgram

WRONG = """
(deftask wrong (x) :instructions "{{x}} {{y}}" :model "nobody:model" :tools ("system:write"))
(deftask other (x) :instructions "{{x}}" :model "house")
"""

ONE_CALL = '(deftask ask (x) :instructions "{{x}}" :model "house")'


def text_of(error: pytest.ExceptionInfo[InvalidProgram]) -> list[tuple[str, str]]:
    return [(problem.code, problem.message) for problem in error.value.found]


async def test_a_file_is_refused_for_the_same_reasons_by_check_run_and_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "wrong.sexp"
    file.write_text(WRONG)
    told = CliRunner().invoke(check, [str(file), "--json"])

    async with await App.open(tmp_path / "weft.db") as app:
        with pytest.raises(InvalidProgram) as by_run:
            await arun(file, app=app)
        with pytest.raises(InvalidProgram) as by_library:
            await app.library.add(read_templates([file]).templates)

    assert text_of(by_run) == text_of(by_library)
    assert sorted(code for code, _ in text_of(by_run)) == [
        "unbound-name",
        "unknown-model",
        "unknown-model",
        "unknown-tool",
    ]
    problems = json.loads(told.stdout)["problems"]
    assert [(problem["code"], problem["message"]) for problem in problems] == text_of(by_run)


async def test_a_program_is_checked_with_the_models_of_the_app_that_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weft.toml").write_text('[models.aliases]\nhouse = "openai:gpt-5"\n')
    bare = Settings(db=str(tmp_path / "weft.db"), models=ModelsSettings())

    async with App(await open_store(bare, must_exist=False), settings=bare) as app:
        with pytest.raises(InvalidProgram, match="unknown model 'house'"):
            await arun(ONE_CALL, app=app)
