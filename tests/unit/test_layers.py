"""The layers of the package: a module imports only what lies below it.

    0  errors ids clock limits aio fault_points gc_tuning version | secrets <- config, process, telemetry
    1  language (ast <- {sexp xml builder cel} <- check)   tasks (record <- {parsing schedules} <- operations)
    2  evaluator (effects <- machine <- {forms operators builtins subtasks})
    3  llm  tools  memory  store  executors                  never each other
    4  integrations
    5  engine  runs
    6  effects
    7  app
    8  workflows
    9  testing  client  cli  servers
   10  __main__

A new module joins a package of this drawing; the drawing itself stays.
"""

import ast
import graphlib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import weft

PACKAGE = Path(weft.__file__).parent

GROUND = {"errors", "ids", "clock", "limits", "aio", "fault_points", "gc_tuning", "version"}
LAYERS = [
    GROUND | {"secrets", "config", "process", "telemetry"},
    {"language", "tasks"},
    {"evaluator"},
    {"llm", "tools", "memory", "store", "executors"},
    {"integrations"},
    {"engine", "runs"},
    {"effects"},
    {"app"},
    {"workflows"},
    {"testing", "client", "cli", "servers"},
    {"__main__"},
]
LAYER_OF = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}

INSIDE = {
    "language.ast": {"language.sexp", "language.xml", "language.builder", "language.cel", "language.check"},
    "language.sexp": {"language.check"},
    "language.xml": {"language.check"},
    "language.builder": {"language.check"},
    "language.cel": {"language.sexp", "language.xml", "language.builder", "language.check"},
    "tasks.record": {"tasks.parsing", "tasks.schedules", "tasks.operations"},
    "tasks.parsing": {"tasks.operations"},
    "tasks.schedules": {"tasks.operations"},
    "evaluator.effects": {
        "evaluator.machine",
        "evaluator.forms",
        "evaluator.operators",
        "evaluator.builtins",
        "evaluator.subtasks",
    },
    "evaluator.machine": {
        "evaluator.forms",
        "evaluator.operators",
        "evaluator.builtins",
        "evaluator.subtasks",
    },
    "secrets": {"config", "process", "telemetry"},
}
"""What a part must not import although it lies in the same layer."""

USE_CASES_ONLY = {"store", "engine", "llm", "runs", "memory"}
"""What the command line and the servers reach through `app`."""

MAX_FILES_IN_A_FOLDER = 22
MAX_LINES = 500


def modules() -> dict[str, Path]:
    """Return all modules of the package, by name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


@cache
def tree_of(module: str) -> ast.Module:
    """Parse a module once: several tests look at all of them."""
    return ast.parse(MODULES[module].read_text())


def imports_of(module: str, *, at_module_level: bool) -> set[str]:
    """Return the modules of weft that a module imports; at module level, `if TYPE_CHECKING` is included."""
    tree = tree_of(module)
    inside = {
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if at_module_level and node in inside:
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            target = name if name in MODULES else name.rpartition(".")[0]
            if target in MODULES and target != module:
                found.add(target)
    return found


def room_of(module: str) -> str | None:
    """Return the room of a module: the first part of its name below `weft`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def is_in(module: str, part: str) -> bool:
    """Return whether a module is, or lies in, a part of the package."""
    return module == f"weft.{part}" or module.startswith(f"weft.{part}.")


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_lies_below_it(module: str) -> None:
    room = room_of(module)
    if room is None:
        return
    assert room in LAYER_OF, f"{room} is no room of the layers"
    for target in imports_of(module, at_module_level=False):
        below = room_of(target)
        if below is None or below == room:
            continue
        if LAYER_OF[room] == 0 and room not in GROUND:
            assert below in LAYERS[0], f"{module} imports {target}"
        else:
            assert LAYER_OF[below] < LAYER_OF[room] or {room, below} <= GROUND, f"{module} imports {target}"


@pytest.mark.parametrize("part", INSIDE)
def test_parts_of_a_layer_import_only_what_lies_below_them(part: str) -> None:
    for module in MODULES:
        if is_in(module, part):
            for target in imports_of(module, at_module_level=False):
                assert not any(is_in(target, above) for above in INSIDE[part]), f"{module} imports {target}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    edges = {module: imports_of(module, at_module_level=True) for module in MODULES}

    tuple(graphlib.TopologicalSorter(edges).static_order())


def test_commands_reach_the_parts_below_through_app() -> None:
    reaching = {
        module
        for module in MODULES
        if room_of(module) in {"cli", "servers"}
        and any(room_of(target) in USE_CASES_ONLY for target in imports_of(module, at_module_level=False))
    }

    assert reaching == set()


def test_no_folder_has_more_files_than_one_can_survey() -> None:
    folders = Counter(path.parent for path in MODULES.values())

    assert {str(folder): count for folder, count in folders.items() if count > MAX_FILES_IN_A_FOLDER} == {}


def test_an_init_file_only_re_exports() -> None:
    for module, path in MODULES.items():
        if path.name != "__init__.py" or module == "weft":
            continue
        for node in tree_of(module).body:
            is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            is_all = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
            assert is_docstring or is_all or isinstance(node, ast.Import | ast.ImportFrom), module


def test_nothing_but_the_command_line_prints() -> None:
    for module in MODULES:
        if module.startswith("weft.cli"):
            continue
        calls = [node for node in ast.walk(tree_of(module)) if isinstance(node, ast.Call)]
        assert not any(isinstance(call.func, ast.Name) and call.func.id == "print" for call in calls), module


def test_no_file_holds_a_second_idea() -> None:
    sizes = {module: path.read_text().count("\n") for module, path in MODULES.items()}

    assert {module: size for module, size in sizes.items() if size > MAX_LINES} == {}
