"""The documentation says what the code does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from weft.config.sections import (
    AiderSettings,
    CommandSettings,
    HandlerSettings,
    HttpSettings,
    MemorySettings,
    ModelParameters,
    ProviderSettings,
    PythonSettings,
    ToolsSettings,
)
from weft.config.settings import load_settings, read_project
from weft.executors.registry import BUILT_IN_IDS
from weft.tasks.record import FIELD_NAMES
from weft.tools import open_toolbox
from weft.tools.mcp.config import read_servers
from weft.tools.mcp.transport import PASSED_ON

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
EXPLANATION = ROOT / "docs" / "explanation"


def test_the_generated_pages_are_up_to_date() -> None:
    # In a process of its own: click keeps the help option of a command that another test has run by itself.
    command = [sys.executable, "-m", "scripts.generate_docs", "--check"]

    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0, "run scripts/generate_docs.py"


def test_every_field_of_the_record_is_documented() -> None:
    page = (REFERENCE / "task-record.md").read_text()

    assert [field for field in FIELD_NAMES if f"`{field}`" not in page] == []


def test_every_setting_is_documented() -> None:
    sources = (ROOT / "src" / "weft").rglob("*.py")
    variables = {name for source in sources for name in re.findall(r"_?WEFT_[A-Z_]+", source.read_text())}
    page = (REFERENCE / "settings.md").read_text()

    assert {name for name in variables if f"`{name}`" not in page} == set()


def test_links_between_pages_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_shows_the_example_that_its_test_runs() -> None:
    (shown,) = re.findall(r"```\n(; weft run (\S+) .*?)```", (ROOT / "README.md").read_text(), re.DOTALL)

    assert shown == ((ROOT / shown[1]).read_text(), shown[1])
    assert len(shown[0].splitlines()) <= 10


def test_the_python_example_of_the_page_on_flows_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "howto" / "run-a-flow.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)

    done = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert done.stdout == "a completed\n  b completed\n"


def test_the_python_example_of_the_executors_page_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (REFERENCE / "executors.md").read_text(), re.DOTALL)

    subprocess.run([sys.executable, "-W", "error", "-c", example], check=True)


def test_every_executor_and_every_setting_of_executors_is_documented() -> None:
    executors = (REFERENCE / "executors.md").read_text()
    settings = (REFERENCE / "settings.md").read_text()

    assert {name for name in BUILT_IN_IDS if f"`{name}`" not in executors} == set()
    for kind in (AiderSettings, CommandSettings, HttpSettings, PythonSettings):
        assert {name for name in kind.__struct_fields__ if f"\n{name} = " not in settings} == set()


def test_every_tool_and_every_setting_of_tools_is_documented() -> None:
    tools = (REFERENCE / "tools.md").read_text()
    settings = (REFERENCE / "settings.md").read_text()
    names = open_toolbox(ToolsSettings(), ROOT, {}).names()

    assert {name for name in names if name.startswith("system:") and f"| `{name}` |" not in tools} == set()
    assert {name for name in ToolsSettings.__struct_fields__ if f"\n{name} = " not in settings} == set()
    assert {name for name in PASSED_ON if f"`{name}`" not in tools} == set()


def test_the_python_example_of_tools_runs(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (REFERENCE / "tools.md").read_text(), re.DOTALL)

    command = [sys.executable, "-W", "error", "-c", example]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("3.5 EUR\n2 tea\n", "")


def test_the_servers_of_the_example_can_be_read(tmp_path: Path) -> None:
    (example,) = re.findall(r"```json\n(.*?)```", (REFERENCE / "tools.md").read_text(), re.DOTALL)
    (tmp_path / ".mcp.json").write_text(example)

    servers = read_servers(tmp_path / ".mcp.json", {"FILES_TOKEN": "a", "SEARCH_KEY": "b"})

    assert [type(server).__name__ for server in servers.values()] == ["StdioServer", "HttpServer"]


def test_every_setting_of_models_is_documented() -> None:
    settings = (REFERENCE / "settings.md").read_text()

    for kind in (ProviderSettings, ModelParameters, HandlerSettings):
        assert {name for name in kind.__struct_fields__ if f"\n{name} = " not in settings} == set()


def test_every_setting_of_memory_is_documented_with_its_default(tmp_path: Path) -> None:
    page = (REFERENCE / "settings.md").read_text()
    (example,) = [text for text in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if "[memory]" in text]
    (tmp_path / "weft.toml").write_text(example)

    found = read_project(tmp_path).memory

    names = ("max_file_bytes", "max_tokens", "max_pieces", "max_files", "rerank")
    assert {name for name in MemorySettings.__struct_fields__ if f"\n{name} = " not in example} == set()
    assert all(getattr(found, name) == getattr(MemorySettings(), name) for name in names)


def test_the_example_of_model_settings_is_read(tmp_path: Path) -> None:
    page = (REFERENCE / "settings.md").read_text()
    (example,) = [text for text in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if "[models]" in text]
    (tmp_path / "weft.toml").write_text(example)

    found = load_settings(environment={}, folder=tmp_path).models

    assert found.default == "fast"
    assert found.settings["ollama:qwen3:8b"].max_tokens == 2000


def test_the_python_example_of_the_engine_runs(tmp_path: Path) -> None:
    (example,) = re.findall(
        r"```python\n(.*?)```", (EXPLANATION / "engine-and-leases.md").read_text(), re.DOTALL
    )

    done = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert done.stdout == "{'text': 'Hello, Ada!'}\n"


@pytest.mark.parametrize("name", ["python", "workflows"])
def test_the_examples_of_a_page_on_python_run(name: str, tmp_path: Path) -> None:
    page = (REFERENCE / f"{name}.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    printed = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    (tmp_path / "examples.py").write_text("\n".join(examples))

    done = subprocess.run(
        [sys.executable, "-W", "error", "examples.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "".join(printed), done.stderr
    assert len(examples) == len(printed) >= 4


def test_every_builder_is_documented() -> None:
    page = (REFERENCE / "python.md").read_text()
    table = " ".join(re.findall(r"^\|[^|]*\| `([^`]*)` \|$", page, re.MULTILINE)).split()

    assert sorted(table) == sorted(weft.build.__all__)
