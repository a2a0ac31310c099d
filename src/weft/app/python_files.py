"""Load programs from Python files: the built program is printed as S-expressions and stored."""

import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.app.evaluation import read
from weft.config.paths import read_start
from weft.errors import RequestError
from weft.language.ast import FunctionCall, Program, Template, Variable
from weft.language.builder.tasks import HasTemplate
from weft.language.builder.tasks import program as build_program
from weft.language.source import NOWHERE
from weft.runs.program import StoredText, print_text

SUFFIX = ".py"
NAMES = ("program", "main")
"""Default names of the object to run: the first name that the file defines counts."""


class NoPythonProgram(RequestError):
    """A Python file cannot be run, or does not define a program."""

    code = "no-python-program"


def is_python(name: str) -> bool:
    """Return whether a command-line argument names a Python file: `report.py`, `report.py:nightly`."""
    return name.partition(":")[0].endswith(SUFFIX)


def load_python_program(name: str, inputs: Mapping[str, Any]) -> StoredText:
    """Return the program of a Python file, with the task functions it defines.

    If the program is a task function, it is called with the inputs that are its parameters. Raise
    NoPythonProgram if the file fails, or does not define the program.
    """
    path, _, wanted = name.partition(":")
    defined = _run_file(Path(path))
    chosen = next((one for one in ((wanted,) if wanted else NAMES) if one in defined), None)
    if chosen is None:
        expected = f"'{wanted}'" if wanted else " or ".join(f"'{one}'" for one in NAMES)
        raise NoPythonProgram(
            f"{path} does not define {expected}, a program made with weft.build or @weft.task"
        )
    value = defined[chosen]
    templates = {one.template.name: one.template for one in defined.values() if _is_task(one)}
    if _is_task(value):
        forms: tuple[Any, ...] = (_call(value.template, inputs),)
    else:
        forms = read(value).forms
    own = {form.name for form in forms if isinstance(form, Template)}
    library = [template for known, template in templates.items() if known not in own]
    return print_text(Program((*build_program(*library).forms, *forms)), path)


def _run_file(path: Path) -> dict[str, Any]:
    try:
        read_start(path, 1)  # rejects a named pipe, which would block
        return runpy.run_path(str(path), run_name="weft_program")
    except OSError as error:
        raise NoPythonProgram(f"{path}: {error.strerror}") from error
    except RequestError:
        raise
    except SystemExit as error:
        raise NoPythonProgram(f"{path} exits when it is loaded: SystemExit: {error}") from error
    except Exception as error:
        raise NoPythonProgram(f"{path} fails when it is loaded: {type(error).__name__}: {error}") from error


def _is_task(value: Any) -> bool:
    return isinstance(value, HasTemplate) and isinstance(getattr(value, "template", None), Template)


def _call(template: Template, inputs: Mapping[str, Any]) -> FunctionCall:
    names = [parameter.name for parameter in template.parameters if parameter.name in inputs]
    keywords = tuple((name, Variable(name=name, span=NOWHERE)) for name in names)
    return FunctionCall(func_name=template.name, keywords=keywords, span=NOWHERE)
