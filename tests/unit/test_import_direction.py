"""Dependencies point one way: DESIGN.md, section 3."""

import ast
import graphlib
from functools import cache
from pathlib import Path

import pytest

import weft

PACKAGE = Path(weft.__file__).parent

LAYERS = [
    {
        "errors",
        "ids",
        "clock",
        "limits",
        "settings",
        "executor_settings",
        "model_settings",
        "memory_settings",
        "secrets",
        "telemetry",
        "project_file",
        "project_models",
        "project_values",
        "project_tables",
        "project_tools",
        "cache_folder",
        "faults",
        "collector",
        "threads",
    },
    {"language", "tasks"},
    {"evaluator", "build"},
    {"llm", "tools", "memory", "store", "executors", "program_files"},
    {"engine"},
    {
        "script_runs",
        "task_files",
        "task_ranking",
        "asked_models",
        "project_checks",
        "project_embedder",
        "project_memory",
        "aider",
    },
    {"project_executors"},
    {"executor_tools", "task_context"},
    {"equipment", "aider_tasks"},
    {"local_effects", "store_opening", "runs"},
    {"program_executors", "submission"},
    {"app"},
    {"sync", "people", "evaluation", "exports"},
    {"resuming"},
    {"workflows", "program_runs", "library", "python_programs"},
    {"api", "web", "cli", "mcp", "testing"},
    {"__main__"},
]
LAYER_OF = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


@cache
def tree_of(module: str) -> ast.Module:
    """What a module says; several tests look at all of them."""
    return ast.parse(MODULES[module].read_text())


def imports_of(module: str, *, only_at_import_time: bool) -> set[str]:
    """The modules of weft that a module imports."""
    tree = tree_of(module)
    nodes = ast.walk(tree) if not only_at_import_time else iter(_import_time_nodes(tree))
    found: set[str] = set()
    for node in nodes:
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


def _import_time_nodes(tree: ast.Module) -> list[ast.AST]:
    """The statements that run when the module is imported: not those in functions or for type checkers."""
    found: list[ast.AST] = []
    stack: list[ast.AST] = list(tree.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        found.append(node)
        stack.extend(ast.iter_child_nodes(node))
    return found


def room_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_lies_below_it(module: str) -> None:
    room = room_of(module)
    if room is None:
        return
    assert room in LAYER_OF, f"{room} has no place in the layers"
    for target in imports_of(module, only_at_import_time=False):
        below = room_of(target)
        if below is None or below == room:
            continue
        are_both_ground = LAYER_OF[room] == LAYER_OF[below] == 0
        assert LAYER_OF[below] < LAYER_OF[room] or are_both_ground, f"{module} imports {target}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    edges = {module: imports_of(module, only_at_import_time=True) for module in MODULES}

    tuple(graphlib.TopologicalSorter(edges).static_order())


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


def test_no_file_has_grown_a_second_noun() -> None:
    for module, path in MODULES.items():
        assert len(path.read_text().splitlines()) <= 400, module
