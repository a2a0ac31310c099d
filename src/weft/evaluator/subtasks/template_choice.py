"""Which template does a subtask: the one that is named, else the one that the request describes best."""

from collections.abc import Iterable
from typing import Any

from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure
from weft.evaluator.subtasks.request import SubtaskRequest
from weft.language.diagnostics import nearest
from weft.language.library import TaskDefinition, TaskLibrary, open_inputs, words, words_of

MAX_CANDIDATES = 20
"""How many names an error gives: a model is to choose among them, not to read a library."""

_FILLERS = words(
    "a an and are as at be by do does for from give has have in into is it its make me my of on one or our "
    "please some task subtask template that the their them then these this those to use using want was we "
    "what which with you your"
)
"""Words that say nothing of what a template does."""


def chosen_template(library: TaskLibrary, request: SubtaskRequest) -> TaskDefinition:
    """The template of a request; raises TaskFailed with the candidates when there is none.

    Without a name: of those with the type and subtype that take the inputs, the one with most hints that are
    its name, then with most words of hints and description; of equal ones the first by name.
    """
    if request.name is not None:
        return _named(library, request.name)
    candidates = library.find(task_type=request.type, subtype=request.subtype)
    fitting = [one for one in candidates if not misfits(one, request.inputs)]
    scored = sorted((_score(one, request), one.name) for one in fitting)
    if scored and (scored[0][0] < (0, 0) or (request.subtype is not None and len(scored) == 1)):
        return library.get_task(scored[0][1])
    raise _not_found(_why(request, candidates, fitting), candidates or library)


def misfits(definition: TaskDefinition, inputs: dict[str, Any]) -> list[str]:
    """Every way in which the inputs are not what a template takes by name."""
    parameters = [parameter.name for parameter in definition.parameters]
    accepted = [*parameters, *open_inputs(definition)]
    missing = [one.name for one in definition.parameters if one.is_required and one.name not in inputs]
    return [
        *(f"{definition.name} needs the input '{name}'" for name in missing),
        *(
            f"{definition.name} has no input '{name}'{nearest(name, accepted)}"
            for name in inputs
            if name not in accepted
        ),
    ]


def _named(library: TaskLibrary, name: str) -> TaskDefinition:
    found = library.tasks.get(name)
    if found is None:
        raise _not_found(f"there is no template '{name}'{nearest(name, library.tasks)}", library)
    return found


def _score(definition: TaskDefinition, request: SubtaskRequest) -> tuple[int, int]:
    """Below zero, the lower the better."""
    named = request.template_hints.count(definition.name)
    wanted = words(" ".join((request.description or "", *request.template_hints))) - _FILLERS
    return -min(named, 1), -len(wanted & words_of(definition))


def _why(request: SubtaskRequest, candidates: list[TaskDefinition], fitting: list[TaskDefinition]) -> str:
    kind = request.type if request.subtype is None else f"{request.type}, {request.subtype}"
    if not candidates:
        return f"there is no template of that kind ({kind})"
    if not fitting:
        given = ", ".join(f"'{name}'" for name in request.inputs) or "none"
        return f"no template of that kind ({kind}) takes these inputs: {given}"
    return "no template has anything in common with the description; give a name"


def _not_found(message: str, candidates: Iterable[TaskDefinition]) -> TaskFailed:
    names = sorted(one.name for one in candidates)
    shown = names[:MAX_CANDIDATES]
    told = f"; there are: {', '.join(shown)}" if shown else "; the library is empty"
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return TaskFailed(
        TaskFailure("template_not_found", f"{message}{told}{more}", details={"candidates": shown})
    )
