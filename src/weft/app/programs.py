"""Start and resume program runs: `weft.run`, and the functions behind `weft run`."""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from weft.app.app import App
from weft.app.evaluation import AnyProgram, read
from weft.app.questions import questions_of, resume_suspended
from weft.config.sections import ModelsSettings
from weft.config.settings import Settings
from weft.errors import EXIT_FAILED, EXIT_UNAVAILABLE, EXIT_WAITING, RequestError, WeftError
from weft.evaluator.results import TaskResult, is_unavailable
from weft.ids import TaskId
from weft.language.ast import Define, Program, Template
from weft.language.library import TaskLibrary
from weft.runs.errors import NoRun
from weft.runs.files import find_files, library_path, schema_file_text
from weft.runs.inputs import reject_unused_inputs
from weft.runs.outcome import RunOutcome, outcome_of
from weft.runs.program import (
    NoProgram,
    StoredProgram,
    StoredText,
    as_params,
    file_text,
    main_of,
    print_library,
    print_text,
    program_of,
)
from weft.runs.template_tasks import check_arguments, is_run
from weft.runs.templates import call_program, find_template, with_templates
from weft.store.protocol import EventFilter
from weft.tasks.events import EventType
from weft.tasks.operations import ChangeRun
from weft.tasks.questions import question_text
from weft.tasks.record import JsonObject, Status, Task
from weft.tasks.states import InvalidTransition


class CannotChange(RequestError):
    """This option cannot be changed when a run is resumed."""

    code = "cannot-change"


class ResumeOptions(Struct, frozen=True, kw_only=True):
    """Settings that may be changed when a run is resumed; they are stored with the run."""

    limits: dict[str, float] = {}
    """New limits by name. Budgets include earlier usage; a time limit restarts with each evaluation."""
    is_fresh: bool = False
    """Whether results of earlier runs are not reused."""

    def __bool__(self) -> bool:
        return bool(self.limits) or self.is_fresh

    def apply_to(self, program: StoredProgram) -> StoredProgram:
        return structs.replace(
            program,
            limits={**program.limits, **self.limits},
            is_reusing=program.is_reusing and not self.is_fresh,
        )


def reject_fixed_options(options: Iterable[str]) -> None:
    """Raise CannotChange if any option is given: `options` names those that a resumed run cannot change."""
    names = list(options)
    if names:
        raise CannotChange(
            f"{', '.join(names)}: a resumed run keeps its program, library, model, inputs and name; "
            f"start a new run instead (finished model calls are reused)"
        )


async def resume_run(app: App, task_id: TaskId, changes: ResumeOptions | None = None) -> TaskId:
    """Request that a run is resumed, and return the id of its root; failed steps are retried.

    Raise NoRun, before anything is performed, if the task does not belong to a program run.
    """
    task = await app.get(task_id)
    root = await app.get(task.task_tree_id or task.id)
    if not await is_run(app.store, root):
        raise NoRun(root_id=root.id, name=root.name)
    if changes:
        root = await _store_changes(app, root, changes)
    if root.status is Status.FAILED:
        await _retry_failed(app, root.id)
    root_id = await app.begin(root.id)
    await resume_suspended(app, root_id, only_overdue=True)
    return root_id


async def _retry_failed(app: App, root_id: TaskId) -> None:
    try:
        await app.retry(root_id)
    except InvalidTransition:
        if (await app.get(root_id)).status is Status.FAILED:
            raise
        # Another process has just resumed the run: both processes wait for it.


async def _store_changes(app: App, root: Task, changes: ResumeOptions) -> Task:
    """Store the changes and return the new root; raise CannotChange unless pending, failed or released."""
    try:
        program = program_of(root)
    except NoProgram:
        raise CannotChange(
            f"{root.id} is not a program run: it has no budget and reuses no results"
        ) from None
    await app.engine()  # releases claims of processes that died
    root = await app.get(root.id)
    if root.status in (Status.COMPLETED, Status.CANCELLED):
        raise CannotChange(f"run {root.id} is {root.status}: it cannot be changed any more")
    if root.status is Status.IN_PROGRESS and not await _is_released(app, root.id):
        raise CannotChange(f"run {root.id} is running in another process; stop that process first")
    change = ChangeRun(task_id=root.id, params=as_params(changes.apply_to(program)), now=app.now())
    return await app.store.operate(change, owner=app.owner)


async def _is_released(app: App, task_id: TaskId) -> bool:
    """Return whether the last attempt at a run was released, so that no process evaluates it."""
    held, after = False, 0
    while events := await app.events(EventFilter(tree=task_id, task=task_id, after=after)):
        after = events[-1].seq
        for event in events:
            if event.type in (EventType.TASK_STARTED, EventType.TASK_RELEASED):
                held = event.type is EventType.TASK_STARTED
    return not held


class RunFailed(WeftError):
    """A run did not complete; its steps are kept, and it can be resumed."""

    code = "run-failed"

    def __init__(self, outcome: RunOutcome) -> None:
        notes = outcome.result.notes if outcome.result is not None else {}
        error = notes.get("error") or {}
        super().__init__(
            f"run {outcome.root_id} is {outcome.status}: {error.get('message', 'it has not ended')}"
        )
        self.outcome = outcome
        self.exit_code = EXIT_UNAVAILABLE if is_unavailable(error) else EXIT_FAILED


class RunWaits(WeftError):
    """A run is suspended until a person answers its questions; then it can be resumed."""

    code = "run-waits"
    exit_code = EXIT_WAITING

    def __init__(self, *, root_id: TaskId, questions: Sequence[Task]) -> None:
        texts = "; ".join(f"{question_text(task)} ({task.id})" for task in questions)
        super().__init__(f"run {root_id} waits for an answer: {texts}")
        self.root_id = root_id
        self.questions = tuple(questions)


class RegisteredName(Struct, frozen=True):
    """Name of a registered template, `review`, or of a version, `review@2`, to be run as a program."""

    name: str


def registered(name: str) -> RegisteredName:
    """Refer to a registered template in `weft.run`, which passes its inputs as arguments."""
    return RegisteredName(name)


def run(program: AnyProgram | RegisteredName | None = None, **settings: Any) -> TaskResult:
    """Run a program durably and return its result; see `arun`."""

    def work() -> TaskResult:
        return asyncio.run(arun(program, **settings))

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    # A notebook: its event loop is blocked by this call, so the run needs another one.
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
    """Run a program durably and return its result; `inputs` and further keywords bind names in it.

    Every step is stored; `notes.root_id` of the result is the id of the run. Without `reuse`, results of
    earlier runs are not reused. With `resume`, the id of a run, that run is resumed and `program` is ignored.
    Raise InvalidProgram before anything is stored, RunFailed if the run failed, RunWaits if it waits for an
    answer.
    """
    if app is None:
        async with await App.open(db) as opened:
            return await arun(
                program, app=opened, libraries=libraries, library=library, model=model, reuse=reuse,
                name=name, resume=resume, inputs=inputs, **more_inputs,
            )  # fmt: skip
    given = _all_inputs(inputs or {}, more_inputs)
    if model is not None and not isinstance(model, str):
        raise TypeError(
            "model must be the name of a model, which is stored with the run; weft.evaluate accepts a Model"
        )
    if resume is not None:
        settings = {"inputs": given, "libraries": libraries, "library": library, "model": model, "name": name}
        reject_fixed_options(setting for setting, value in settings.items() if value)
        root_id = await resume_run(app, TaskId(resume), ResumeOptions(is_fresh=not reuse))
    elif program is None:
        raise TypeError("give a program or resume=ID")
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
        raise TypeError(f"inputs given twice: {', '.join(sorted(twice))}")
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
    """Return a program that calls a registered template with these arguments.

    Raise UnknownTemplate, or InvalidTasks if the arguments do not match its parameters.
    """
    template = await find_template(app.store, name, user_id=app.owner.user_id)
    check_arguments(template, inputs)
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
    """Return a self-contained copy of a program, with libraries and schemas; raise InvalidProgram.

    `read_schema` returns the text of a schema file, given its path and the file that names it.
    """
    texts = [file_text(file) for path in libraries for file in find_files(library_path(path))]
    if library is not None and len(library):
        texts.append(print_library(library))
    stored = StoredProgram(
        _main_text(program),
        libraries=tuple(texts),
        model=model,
        is_reusing=reuse,
        limits=limits or {},
    )
    return stored.with_schemas(read_schema or schema_file_text)


def check_program(program: StoredProgram, inputs: JsonObject, settings: Settings) -> None:
    """Raise InvalidProgram with all problems found by the checks, before the first step is performed.

    Also raise NothingToRun, and UnusedInputs for inputs that the program does not use.
    """
    # Imported here: not needed to resume a run.
    from weft.effects.checks import project_names, require_valid

    forms = [form for text in program.libraries for form in text.definitions().forms]
    definitions = [form for form in forms if isinstance(form, Template | Define)]
    known = project_names(settings, program.schema_text)
    main, bound = main_of(program, inputs)
    require_valid(main, definitions, known, bound)
    reject_unused_inputs(program, inputs)


def check_models(program: StoredProgram, settings: ModelsSettings) -> None:
    """Raise ModelUnusable if the program may use a model that is not available."""
    # Imported here: not needed to resume a run.
    from weft.effects.asked_models import require_models
    from weft.effects.checks import library_of

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
    """Return the default name of a run: the name of its template or file."""
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
    return print_text(built)
