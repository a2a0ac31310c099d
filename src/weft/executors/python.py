"""`python`: calls a Python function of an allowed module."""

import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Annotated, Any, cast

from msgspec import Meta, field

from weft.aio import call_function, run_blocking
from weft.config.sections import PythonSettings
from weft.executors.protocol import ExecutionFailed, Inputs, Work, permanent_failure, read_inputs, schema_of
from weft.tasks.record import ExecutorType


class PythonInputs(Inputs, frozen=True, kw_only=True):
    function: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$",
            description="Function to call, as `package.module:name`.",
        ),
    ]
    arguments: Annotated[dict[str, Any], Meta(description="Keyword arguments.")] = field(default_factory=dict)


class PythonFunction:
    """Calls functions by their import path."""

    id = "python"
    type = ExecutorType.LOCAL
    summary = "Calls a Python function of an allowed module; a synchronous one in a thread."
    input_schema = schema_of(PythonInputs)
    uses_dependencies = False

    def __init__(self, settings: PythonSettings) -> None:
        self.settings = settings

    async def execute(self, work: Work) -> Any:
        inputs = read_inputs(PythonInputs, work.inputs)
        module_name, _, name = inputs.function.partition(":")
        self._check_allowed(module_name)
        # In a thread, because an import may take long.
        function = await run_blocking(lambda: self._find(module_name, name), name="weft-import")
        _check_arguments(function, inputs)
        try:
            return await call_function(function, inputs.arguments, name=f"weft-{inputs.function}")
        except ExecutionFailed:
            raise
        except Exception as error:
            raise ExecutionFailed(
                f"{inputs.function} raised {type(error).__name__}: {error}",
                details={"exception": type(error).__name__},
            ) from error

    def _check_allowed(self, module: str) -> None:
        if not any(
            module == allowed or module.startswith(f"{allowed}.") for allowed in self.settings.modules
        ):
            raise permanent_failure(
                f"module '{module}' is not allowed; allow it in weft.toml: "
                f'[executors.python] modules = ["{module}"]'
            )

    def _find(self, module_name: str, name: str) -> Callable[..., Any]:
        """Return a function that the module itself defines. Raise ExecutionFailed for imported names."""
        for folder in self.settings.path:
            if folder not in sys.path:
                sys.path.append(folder)  # last, so that a project's file never shadows a library
        try:
            module = importlib.import_module(module_name)
        except BaseException as error:
            # BaseException, because the module may call sys.exit().
            raise permanent_failure(
                f"module '{module_name}' cannot be imported: {type(error).__name__}: {error}"
            ) from error
        found = vars(module).get(name)
        if found is None:
            raise permanent_failure(f"module '{module_name}' has no function '{name}'")
        is_its_own = getattr(found, "__module__", None) == module_name
        if not callable(found) or not is_its_own:
            raise permanent_failure(
                f"'{name}' is not a function defined in module '{module_name}'; an imported function must be "
                "named with the module that defines it"
            )
        return cast(Callable[..., Any], found)


def _check_arguments(function: Callable[..., Any], inputs: PythonInputs) -> None:
    """Raise a permanent ExecutionFailed if the arguments do not match the signature."""
    try:
        inspect.signature(function).bind(**inputs.arguments)
    except TypeError as error:
        raise permanent_failure(f"{inputs.function}: {error}") from error
    except ValueError:
        return  # the function has no readable signature
