"""What of its surroundings a program keeps when its run begins: later changes of them are not for it."""

from contextlib import suppress
from pathlib import Path

from msgspec import structs

from weft.executors.protocol import ExecutionFailed
from weft.llm.errors import ModelError
from weft.llm.model_names import resolved
from weft.model_settings import ModelsSettings
from weft.runs.program import StoredProgram


def with_model(program: StoredProgram, models: ModelsSettings) -> StoredProgram:
    """The program with the model of tasks that name none, as it is called now; None where none is chosen."""
    name = program.model or models.default
    if name is None:
        return program
    with suppress(ModelError):  # which is said when the model is asked, with everything that helps
        name = str(resolved(name, models))
    return structs.replace(program, model=name)


def in_its_folder(program: StoredProgram, *, has_begun: bool) -> StoredProgram:
    """The program where it works; one that has not begun works here if that folder is elsewhere.

    Raises ExecutionFailed when steps of it were performed in a folder that is not here.
    """
    if program.folder is None or Path(program.folder).is_dir():
        return program
    if has_begun:
        raise ExecutionFailed(
            f"the run works in {program.folder}, which is not here; go on with it where it is"
        )
    return structs.replace(program, folder=None)
