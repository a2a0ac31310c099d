"""What of its surroundings a program keeps when its run begins: later changes of them are not for it."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from msgspec import structs

from weft.executors.protocol import ExecutionFailed
from weft.llm.errors import ModelError
from weft.llm.model_names import resolved
from weft.model_settings import ModelsSettings
from weft.project_file import find_project_file
from weft.runs.program import StoredProgram
from weft.settings import working_folder


def with_model(program: StoredProgram, models: ModelsSettings) -> StoredProgram:
    """The program with the model of tasks that name none, as it is called now; None where none is chosen."""
    name = program.model or models.default
    if name is None:
        return program
    with suppress(ModelError):  # which is said when the model is asked, with everything that helps
        name = str(resolved(name, models))
    return structs.replace(program, model=name)


def in_its_folder(program: StoredProgram, *, has_begun: bool) -> StoredProgram:
    """Return the program where it works: in its own folder if this process accepts it, else here.

    Raises ExecutionFailed when steps of it were performed in a folder that this process does not accept.
    """
    if program.folder is None:
        return program
    problem = _folder_problem(Path(program.folder))
    if problem is None:
        return program
    if has_begun:
        raise ExecutionFailed(f"the run works in {program.folder}, {problem}; resume it there")
    return structs.replace(program, folder=None)


def _folder_problem(folder: Path) -> str | None:
    """Return why this process does not work in a folder, whose `weft.toml` would apply to it.

    It is another machine's, or another user's: only this process's own project, and projects of the user it
    runs as, may decide what it does. In a folder that everybody can write to, as /tmp, anybody can leave a
    `.mcp.json` or a module.
    """
    try:
        found = folder.stat()
        owners = {found.st_uid}
        file = find_project_file(folder)
        if file is not None:
            owners.add(file.stat().st_uid)
    except OSError:
        return "which is not here"
    if not folder.is_dir():
        return "which is not here"
    here = working_folder()
    if folder == here or (file is not None and file == find_project_file(here)):
        return None
    if owners != {os.geteuid()}:
        return "a project of another user"
    return "which every user can write to" if found.st_mode & stat.S_IWOTH else None
