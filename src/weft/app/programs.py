"""Run programs: `run_program`, the use case of all front ends, and `weft.run` for scripts and notebooks."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from weft.aio import run_sync
from weft.app.app import App, TaskFilter
from weft.app.evaluation import AnyProgram, read
from weft.app.run_records import CannotChange
from weft.app.run_records import ResumeOptions as ResumeOptions
from weft.app.sources import RegisteredName as RegisteredName
from weft.config.sections import ModelsSettings
from weft.config.settings import Settings
from weft.effects.asked_models import require_models
from weft.effects.checks import library_of, project_names, require_valid
from weft.errors import EXIT_FAILED, EXIT_WAITING, WeftError
from weft.evaluator.results import TaskResult
from weft.ids import TaskId
from weft.language.ast import (
    Assign,
    Define,
    FunctionCall,
    Literal,
    Node,
    Program,
    Template,
    Variable,
)
from weft.language.library import TaskLibrary
from weft.language.schemas import argument_schema
from weft.language.traversal import structs_in
from weft.runs.files import find_files, library_path, schema_file_text
from weft.runs.inputs import reject_unused_inputs
from weft.runs.outcome import RunOutcome as RunOutcome
from weft.runs.outcome import Spent as Spent
from weft.runs.outcome import spent_by as spent_by
from weft.runs.program import LoadedProgram as LoadedProgram
from weft.runs.program import (
    StoredProgram,
    called_if_only_template,
    file_text,
    print_library,
    print_text,
    program_of,
)
from weft.runs.program import StoredText as StoredText
from weft.runs.template_tasks import check_arguments
from weft.runs.templates import UnknownTemplate, call_program, find_template, wants_templates, with_templates
from weft.store.errors import StoreNotFound
from weft.tasks.parsing.arguments import typed_arguments
from weft.tasks.program_params import PROGRAM
from weft.tasks.questions import question_text
from weft.tasks.record import JsonObject, Status, Task


class RunOptions(Struct, frozen=True, kw_only=True):
    """How a new run is performed; stored with the run."""

    name: str | None = None
    """Name of the run; None: the name of its template or file."""
    model: str | None = None
    """Model of tasks that do not name one."""
    reuse: bool = True
    """Whether results of earlier runs are reused."""
    limits: dict[str, float] = {}
    """Budget: steps, seconds, tokens, cost."""
    libraries: Sequence[str | Path] = ()
    """Files and folders of templates and functions that the program may use."""
    library: TaskLibrary | None = None
    """Further templates."""


class ResumedRun(Struct, frozen=True):
    """A run that is resumed, given the id of any of its tasks."""

    task_id: TaskId
    changes: ResumeOptions = ResumeOptions()
    asks_again: bool = False
    """Whether suspended tasks are resumed too, so that this process asks their questions again."""


ProgramSource = AnyProgram | StoredText | RegisteredName


class RunObserver:
    """Follows a run for a front end. This one only waits for the end of the run."""

    @property
    def is_stopped(self) -> bool:
        """Return whether the front end stopped the run."""
        return False

    def storing(self) -> AbstractContextManager[None]:
        """Return a context for the time in which the store is used before anything is performed."""
        return nullcontext()

    async def follow(self, app: App, root_id: TaskId, *, after: int, was: str) -> None:
        """Wait until the run ends or is stopped.

        `after` is the number of its last event, and `was` its state, before it was started or resumed: `new`,
        `resumed`, `ended` or `running` (in another process).
        """
        await app.wait(root_id)


async def run_program(
    app: App,
    source: ProgramSource | LoadedProgram | ResumedRun,
    inputs: JsonObject,
    options: RunOptions,
    observer: RunObserver,
) -> RunOutcome:
    """Run a program, or resume a run, until it ends, is suspended or is stopped; return its outcome.

    A LoadedProgram must have been checked (`open_for_run`). Raise InvalidProgram before anything is stored.
    """
    if not isinstance(source, LoadedProgram | ResumedRun):
        source, inputs = await prepare_program(app, app.settings, source, inputs, options)
    after, was = 0, "new"
    with observer.storing():
        if isinstance(source, ResumedRun):
            root = await app.root_of(source.task_id)
            after, was = await app.last_event(root.id), await _state_before(app, root)
            root_id = await app.resume(root.id, source.changes)
            if source.asks_again:
                await app.resume_suspended(root_id)
        else:
            root_id = await app.begin_program(source, inputs, name=options.name or run_name(source.stored))
    await observer.follow(app, root_id, after=after, was=was)
    return await app.outcome(root_id)


async def _state_before(app: App, root: Task) -> str:
    if root.status in (Status.COMPLETED, Status.CANCELLED):
        return "ended"
    return "running" if await app.is_running_elsewhere(root) else "resumed"


OpenApp = Callable[[bool], Awaitable[App]]
"""Opens the app of a run; with True, only to find templates in its store: raises StoreNotFound."""


@asynccontextmanager
async def open_for_run(
    open_app: OpenApp,
    settings: Settings,
    source: ProgramSource,
    inputs: JsonObject,
    options: RunOptions,
    *,
    is_ephemeral: bool = False,
) -> AsyncIterator[tuple[App, LoadedProgram, JsonObject]]:
    """Check a program, and open the app in which it is run; it is closed after the block.

    A missing store is created only when the program has passed its checks. With `is_ephemeral`, the app of
    the run has another store than the templates.
    """
    loaded = source if isinstance(source, RegisteredName) else load_program(source, options)
    app = await _open_templates(open_app, loaded, inputs)
    try:
        program, inputs = await prepare_program(app, settings, loaded, inputs, options)
        if app is None or is_ephemeral:
            opened, app = app, None
            if opened is not None:
                await opened.close()
            app = await open_app(False)
        yield app, program, inputs
    finally:
        if app is not None:
            await app.close()


async def _open_templates(
    open_app: OpenApp, source: LoadedProgram | RegisteredName, inputs: JsonObject
) -> App | None:
    """Open the app if templates of its store are needed; return None if they are not, or it has no store."""
    if isinstance(source, LoadedProgram) and not wants_templates(source, inputs):
        return None
    try:
        return await open_app(True)
    except StoreNotFound as error:
        if isinstance(source, RegisteredName):
            hint = f", nor is there such a file: {error.message}"
            raise UnknownTemplate(source.name, hint=hint) from None
        return None  # no registered templates: the check reports missing names


async def prepare_program(
    app: App | None,
    settings: Settings,
    source: ProgramSource | LoadedProgram,
    inputs: JsonObject,
    options: RunOptions,
) -> tuple[LoadedProgram, JsonObject]:
    """Return the checked program of a run, with the registered templates that it uses, and its inputs.

    Inputs that are texts of a command line are converted by their declared types. Raise InvalidProgram,
    UnknownTemplate, or InvalidTasks if the inputs do not match the template.
    """
    if isinstance(source, RegisteredName):
        if app is None:
            raise UnknownTemplate(source.name)
        template = await find_template(app.store, source.name, user_id=app.owner.user_id)
        inputs = typed_arguments(inputs, template.facts.input_schema)
        check_arguments(template, inputs)
        called = await call_program(app.store, template, inputs)
        program = called.replace(model=options.model, is_reusing=options.reuse, limits=options.limits)
    else:
        program = source if isinstance(source, LoadedProgram) else load_program(source, options)
        if app is not None:
            program = await with_templates(app.store, program, user_id=app.owner.user_id, inputs=inputs)
        inputs = typed_arguments(inputs, _declared_inputs(program))
    check_program(program, inputs, settings)
    if app is None or app.has_project_effects:
        check_models(program, settings.models)
    return program, inputs


def _declared_inputs(program: LoadedProgram) -> JsonObject:
    """Return a JSON Schema of the program's inputs: of its template, or as calls of templates use them."""
    definitions = program.definitions
    entry = definitions.get(program.stored.entry or "")
    if isinstance(entry, Template):
        return argument_schema(entry)
    found: dict[str, list[Any]] = {}
    for call in structs_in(program.main.forms):
        template = definitions.get(call.func_name) if isinstance(call, FunctionCall) else None
        if isinstance(call, FunctionCall) and isinstance(template, Template):
            names = [parameter.name for parameter in template.parameters]
            declared = argument_schema(template)["properties"]
            for name, node in (*zip(names, call.args, strict=False), *call.keywords):
                if isinstance(node, Variable) and not node.path:
                    found.setdefault(node.name, []).append(declared.get(name))
    return {"properties": {name: uses[0] for name, uses in found.items() if uses == uses[:1] * len(uses)}}


def load_program(
    source: AnyProgram | StoredText,
    options: RunOptions | None = None,
    *,
    read_schema: Callable[[str, str], str] = schema_file_text,
) -> LoadedProgram:
    """Return a self-contained program, with its libraries and schemas; raise InvalidProgram.

    `read_schema` returns the text of a schema file, given its path and the file that names it.
    """
    options = options or RunOptions()
    texts = [file_text(file) for path in options.libraries for file in find_files(library_path(path))]
    if options.library is not None and len(options.library):
        texts.append(print_library(options.library))
    stored = StoredProgram(
        _main_text(source),
        libraries=tuple(texts),
        model=options.model,
        is_reusing=options.reuse,
        limits=options.limits,
    )
    return called_if_only_template(LoadedProgram(stored)).with_schemas(read_schema)


def _main_text(source: AnyProgram | StoredText) -> StoredText:
    if isinstance(source, StoredText):
        return source
    if isinstance(source, str):
        return StoredText("<text>", source)
    return file_text(source) if isinstance(source, Path) else print_text(read(source))


def check_program(program: LoadedProgram, inputs: JsonObject, settings: Settings) -> None:
    """Raise InvalidProgram with all problems found by the checks, before the first step is performed.

    Also raise NothingToRun, and UnusedInputs for inputs that the program does not use.
    """
    definitions = [form for form in program.library_forms if isinstance(form, Template | Define)]
    known = project_names(settings, program.stored.schema_text)
    main, bound = program.call(inputs)
    require_valid(_with_arguments(main, bound), definitions, known, bound)
    reject_unused_inputs(program, inputs)


def _with_arguments(main: Program, inputs: JsonObject) -> Program:
    """Return the program with its inputs as constants in calls at the top level, to check their types."""
    changed = {one.name for one in structs_in(main.forms) if isinstance(one, Define | Assign)}
    known = {
        name: value
        for name, value in inputs.items()
        if name not in changed and (value is None or isinstance(value, str | int | float))
    }

    def constant(node: Node) -> Node:
        if isinstance(node, Variable) and not node.path and node.name in known:
            return Literal(known[node.name], span=node.span)
        return node

    def with_constants(form: Node) -> Node:
        if not isinstance(form, FunctionCall):
            return form
        keywords = tuple((name, constant(node)) for name, node in form.keywords)
        return structs.replace(form, args=tuple(map(constant, form.args)), keywords=keywords)

    return Program(tuple(map(with_constants, main.forms)))


def check_models(program: LoadedProgram, settings: ModelsSettings) -> None:
    """Raise ModelUnusable if the program may use a model that is not available."""
    forms = program.library_forms
    require_models(
        program.main.forms,
        library_of(forms),
        lambda: settings,
        os.environ,
        model=program.stored.model,
        functions=[form for form in forms if isinstance(form, Define)],
    )


def run_name(program: StoredProgram) -> str:
    """Return the default name of a run: the name of its template or file."""
    if program.entry is not None:
        return program.entry
    name = program.main.name
    return "program" if name.startswith("<") else Path(name).stem or "program"


def reject_fixed_options(options: Iterable[str]) -> None:
    """Raise CannotChange if any option is given: `options` names those that a resumed run cannot change."""
    names = list(options)
    if names:
        raise CannotChange(
            f"{', '.join(names)}: a resumed run keeps its program, library, model, inputs and name; "
            f"start a new run instead (finished model calls are reused)"
        )


async def explain_missing_reuse(app: App, root: Task, spent: Spent) -> str | None:
    """Return why a run reused no results if another version of weft ran the same program; None otherwise."""
    if spent.reused or not spent.usage.turns:
        return None
    program = program_of(root)
    if not program.is_reusing:
        return None
    wanted = TaskFilter(name=root.name, status=Status.COMPLETED, only_roots=True, with_steps=False, limit=20)
    for task in (await app.list(wanted)).tasks:
        params = (task.params or {}).get(PROGRAM)
        if task.id == root.id or not isinstance(params, dict) or task.inputs != root.inputs:
            continue
        if (params.get("main") or {}).get("text") == program.main.text:
            before = params.get("version") or "(an earlier version)"
            if before != program.version:
                versions = f"it was made by weft {before}, this is weft {program.version}"
                return f"no results of run {task.id} were reused: {versions}"
            return None
    return None


class RunFailed(WeftError):
    """A run did not complete; its steps are kept, and it can be resumed."""

    code = "run-failed"

    def __init__(self, outcome: RunOutcome) -> None:
        message = outcome.error.get("message", "it has not ended")
        super().__init__(f"run {outcome.root_id} is {outcome.status}: {message}")
        self.outcome = outcome
        self.exit_code = EXIT_FAILED if outcome.result is None else outcome.exit_code


class RunWaits(WeftError):
    """A run is suspended until a person answers its questions; then it can be resumed."""

    code = "run-waits"
    exit_code = EXIT_WAITING

    def __init__(self, *, root_id: TaskId, questions: Sequence[Task]) -> None:
        texts = "; ".join(f"{question_text(task)} ({task.id})" for task in questions)
        super().__init__(f"run {root_id} waits for an answer: {texts}")
        self.root_id = root_id
        self.questions = tuple(questions)


def registered(name: str) -> RegisteredName:
    """Refer to a registered template in `weft.run`, which passes its inputs as arguments."""
    return RegisteredName(name)


def run(program: AnyProgram | RegisteredName | None = None, **settings: Any) -> TaskResult:
    """Run a program durably and return its result; see `arun`."""
    return run_sync(lambda: arun(program, **settings))


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
    if twice := (inputs or {}).keys() & more_inputs.keys():
        raise TypeError(f"inputs given twice: {', '.join(sorted(twice))}")
    given = {**(inputs or {}), **more_inputs}
    if model is not None and not isinstance(model, str):
        raise TypeError(
            "model must be the name of a model, which is stored with the run; weft.evaluate accepts a Model"
        )
    source: ProgramSource | ResumedRun
    if resume is not None:
        fixed = {"inputs": given, "libraries": libraries, "library": library, "model": model, "name": name}
        reject_fixed_options(setting for setting, value in fixed.items() if value)
        source = ResumedRun(TaskId(resume), ResumeOptions(is_fresh=not reuse))
    elif program is None:
        raise TypeError("give a program or resume=ID")
    else:
        source = program
    options = RunOptions(name=name, model=model, reuse=reuse, libraries=libraries, library=library)
    async with nullcontext(app) if app is not None else await App.open(db) as opened:
        outcome = await run_program(opened, source, given, options, RunObserver())
    if outcome.exit_code == EXIT_WAITING:
        raise RunWaits(root_id=outcome.root_id, questions=outcome.questions)
    if outcome.status is not Status.COMPLETED or outcome.result is None:
        raise RunFailed(outcome)
    return outcome.result.with_notes(root_id=outcome.root_id)
