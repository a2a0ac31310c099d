"""Programs of Python files: what the file makes is printed, and from then on is a program like any other."""

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
from weft.runs.program import StoredText, printed

SUFFIX = ".py"
NAMES = ("program", "main")
"""What is run of a file when nobody says: the first of these that it has."""


class NoPythonProgram(RequestError):
    """A Python file cannot be run, or has nothing that is a program."""

    code = "no-python-program"


def is_python(name: str) -> bool:
    """Whether the name on the command line is that of a Python file: `report.py`, `report.py:nightly`."""
    return name.partition(":")[0].endswith(SUFFIX)


def python_text(name: str, given: Mapping[str, Any]) -> StoredText:
    """The program of a file, with its task functions; a task function is called with what is given."""
    path, _, wanted = name.partition(":")
    made = _made(Path(path))
    chosen = next((one for one in ((wanted,) if wanted else NAMES) if one in made), None)
    if chosen is None:
        expected = f"'{wanted}'" if wanted else " or ".join(f"'{one}'" for one in NAMES)
        raise NoPythonProgram(f"{path} has no {expected}: a program made with weft.build or @weft.task")
    value = made[chosen]
    templates = {one.template.name: one.template for one in made.values() if _is_task(one)}
    if _is_task(value):
        forms: tuple[Any, ...] = (_call(value.template, given),)
    else:
        forms = read(value).forms
    own = {form.name for form in forms if isinstance(form, Template)}
    library = [template for known, template in templates.items() if known not in own]
    return printed(Program((*build_program(*library).forms, *forms)), path)


def _made(path: Path) -> dict[str, Any]:
    try:
        read_start(path, 1)  # a named pipe would be waited for
        return runpy.run_path(str(path), run_name="weft_program")
    except OSError as error:
        raise NoPythonProgram(f"{path}: {error.strerror}") from error
    except RequestError:
        raise
    except SystemExit as error:
        raise NoPythonProgram(f"{path} ends itself: SystemExit: {error}") from error
    except Exception as error:
        raise NoPythonProgram(f"{path} fails: {type(error).__name__}: {error}") from error


def _is_task(value: Any) -> bool:
    return isinstance(value, HasTemplate) and isinstance(getattr(value, "template", None), Template)


def _call(template: Template, given: Mapping[str, Any]) -> FunctionCall:
    """The call of a template with the names that are given: those it has as parameters."""
    names = [parameter.name for parameter in template.parameters if parameter.name in given]
    keywords = tuple((name, Variable(name=name, span=NOWHERE)) for name in names)
    return FunctionCall(func_name=template.name, keywords=keywords, span=NOWHERE)
