"""`weft.run`: a program that is run durably, from Python or for the command line."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from weft.app import App
from weft.errors import EXIT_FAILED, EXIT_UNAVAILABLE, EXIT_WAITING, WeftError
from weft.evaluation import AnyProgram, read
from weft.evaluator.results import TaskResult, is_unavailable
from weft.ids import TaskId
from weft.language.library import TaskLibrary
from weft.language.tree import Define, Program, Template
from weft.model_settings import ModelsSettings
from weft.people import questions_of
from weft.program_files import find_files, library_path, schema_file_text
from weft.resuming import RunChanges, begin_again, require_settled
from weft.runs.input_names import require_use
from weft.runs.outcome import RunOutcome, outcome_of
from weft.runs.program import StoredProgram, StoredText, main_of, printed, printed_library
from weft.runs.program_text import file_text
from weft.runs.template_tasks import require_given
from weft.runs.templates import call_program, find_template, with_templates
from weft.settings import Settings
from weft.tasks.questions import question_text
from weft.tasks.record import JsonObject, Status, Task


class RunFailed(WeftError):
    """A run did not complete; its steps are kept, and `resume` goes on with it."""

    code = "run-failed"

    def __init__(self, outcome: RunOutcome) -> None:
        notes = outcome.result.notes if outcome.result is not None else {}
        error = notes.get("error") or {}
        super().__init__(
            f"run {outcome.root_id} is {outcome.status}: {error.get('message', 'it is not over')}"
        )
        self.outcome = outcome
        self.exit_code = EXIT_UNAVAILABLE if is_unavailable(error) else EXIT_FAILED


class RunWaits(WeftError):
    """A run waits for the answer of a person; it holds nothing, and `resume` goes on with it afterwards."""

    code = "run-waits"
    exit_code = EXIT_WAITING

    def __init__(self, *, root_id: TaskId, questions: Sequence[Task]) -> None:
        asked = "; ".join(f"{question_text(task)} ({task.id})" for task in questions)
        super().__init__(f"run {root_id} waits for an answer: {asked}")
        self.root_id = root_id
        self.questions = tuple(questions)


class RegisteredName(Struct, frozen=True):
    """A program that is a template of the store: `review`, or a version of it, `review@2`."""

    name: str


def registered(name: str) -> RegisteredName:
    """The template of that name in the store, for `weft.run`; what is passed there are its arguments."""
    return RegisteredName(name)


def run(program: AnyProgram | RegisteredName | None = None, **settings: Any) -> TaskResult:
    """The result of a program that is run durably; see `arun`."""

    def work() -> TaskResult:
        return asyncio.run(arun(program, **settings))

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    # A notebook: its event loop waits for this very call, so the run needs one of its own.
    with ThreadPoolExecutor(1, thread_name_prefix="weft") as thread:
        return thread.submit(work).result()


async def arun(
    program: AnyProgram | RegisteredName | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    db: str | Path | None = None,
    app: App | None = None,
    libraries: Sequence[str | Path] = (),
    library: TaskLibrary | None = None,
    model: str | None = None,
    reuse: bool = True,
    name: str | None = None,
    resume: str | None = None,
    **more_inputs: Any,
) -> TaskResult:
    """The result of a program whose every step is stored; `inputs`, and other keywords, are names it can use.

    `notes.root_id` of the result is the id of the run. With `resume`, the id of a run, that one goes on and
    the program is not looked at. Raises InvalidProgram before anything is stored, RunFailed when it failed,
    RunWaits when it asks a person something.
    """
    if app is None:
        async with await App.open(db) as opened:
            return await arun(
                program, app=opened, libraries=libraries, library=library, model=model, reuse=reuse,
                name=name, resume=resume, inputs=inputs, **more_inputs,
            )  # fmt: skip
    given = _all_inputs(inputs or {}, more_inputs)
    if resume is not None:
        settings = {"inputs": given, "libraries": libraries, "library": library, "model": model, "name": name}
        require_settled(setting for setting, value in settings.items() if value)
        root_id = await begin_again(app, TaskId(resume), RunChanges(is_fresh=not reuse))
    elif program is None:
        raise TypeError("give a program, or resume=ID")
    else:
        if isinstance(program, RegisteredName):
            stored = await named_program(app, program.name, given, model=model, reuse=reuse)
        else:
            stored = stored_program(program, libraries=libraries, library=library, model=model, reuse=reuse)
            stored = await with_templates(app.store, stored, user_id=app.owner.user_id, inputs=given)
        check_program(stored, given, app.settings)
        if app.has_project_effects:
            check_models(stored, app.settings.models)
        root_id = await app.begin_program(stored, given, name=name or run_name(stored))
    await app.wait(root_id)
    outcome = await outcome_of(app.store, await app.get(root_id))
    if outcome.status is Status.PENDING and (questions := await questions_of(app, root_id)):
        raise RunWaits(root_id=root_id, questions=questions)
    if outcome.status is not Status.COMPLETED or outcome.result is None:
        raise RunFailed(outcome)
    return outcome.result.with_notes(root_id=root_id)


def _all_inputs(inputs: Mapping[str, Any], more: Mapping[str, Any]) -> JsonObject:
    twice = inputs.keys() & more.keys()
    if twice:
        raise TypeError(f"given twice: {', '.join(sorted(twice))}")
    return {**inputs, **more}


async def named_program(
    app: App,
    name: str,
    inputs: JsonObject,
    *,
    model: str | None = None,
    reuse: bool = True,
    limits: JsonObject | None = None,
) -> StoredProgram:
    """The call of a registered template with these arguments, and all that it needs.

    Raises UnknownTemplate, or InvalidTasks when the arguments do not fit.
    """
    template = await find_template(app.store, name, user_id=app.owner.user_id)
    require_given(template, inputs)
    program = await call_program(app.store, template, inputs)
    return msgspec.structs.replace(program, model=model, is_reusing=reuse, limits=limits or {})


def stored_program(
    program: "AnyProgram | StoredText",
    *,
    libraries: Sequence[str | Path] = (),
    library: TaskLibrary | None = None,
    model: str | None = None,
    reuse: bool = True,
    limits: JsonObject | None = None,
    read_schema: Callable[[str, str], str] | None = None,
) -> StoredProgram:
    """The program with everything it needs, as it is now; raises InvalidProgram."""
    texts = [file_text(file) for path in libraries for file in find_files(library_path(path))]
    if library is not None and len(library):
        texts.append(printed_library(library))
    stored = StoredProgram(
        _main_text(program),
        libraries=tuple(texts),
        model=model,
        is_reusing=reuse,
        limits=limits or {},
    )
    return stored.with_schemas(read_schema or schema_file_text)


def check_program(program: StoredProgram, inputs: JsonObject, settings: Settings) -> None:
    """Raise InvalidProgram with everything that is known to be wrong before the first step is paid for.

    Then NothingToRun, and UnusedInputs for what was given and is named nowhere.
    """
    # Imported here: a run that is resumed is not checked again.
    from weft.project_checks import project_names, require_valid

    forms = [form for text in program.libraries for form in text.definitions().forms]
    definitions = [form for form in forms if isinstance(form, Template | Define)]
    known = project_names(settings, program.schema_text)
    main, bound = main_of(program, inputs)
    require_valid(main, definitions, known, bound)
    require_use(program, inputs)


def check_models(program: StoredProgram, settings: ModelsSettings) -> None:
    """Raise ModelUnusable when a model that the program may ask cannot be asked."""
    # Imported here: who resumes a run checks nothing.
    from weft.asked_models import require_models
    from weft.project_checks import library_of

    forms = [form for text in program.libraries for form in text.definitions().forms]
    require_models(
        program.main.read().forms,
        library_of(forms),
        lambda: settings,
        os.environ,
        model=program.model,
        functions=[form for form in forms if isinstance(form, Define)],
    )


def run_name(program: StoredProgram) -> str:
    """What the task of a run is called when nobody says."""
    if program.entry is not None:
        return program.entry
    name = program.main.name
    return "program" if name.startswith("<") else Path(name).stem or "program"


def _main_text(program: "AnyProgram | StoredText") -> StoredText:
    if isinstance(program, StoredText):
        return program
    if isinstance(program, str):
        return StoredText("<text>", program)
    if isinstance(program, Path):
        return file_text(program)
    built: Program = read(program)
    return printed(built)
