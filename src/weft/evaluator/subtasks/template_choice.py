"""Selects the template of a subtask: by name, else by the best match of the description."""

from collections.abc import Iterable
from typing import Any

from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure
from weft.evaluator.subtasks.request import SubtaskRequest
from weft.language.diagnostics import nearest
from weft.language.library import TaskDefinition, TaskLibrary, open_inputs, words, words_of

MAX_CANDIDATES = 20
"""Most template names that an error lists for a model to choose from."""

_STOP_WORDS = words(
    "a an and are as at be by do does for from give has have in into is it its make me my of on one or our "
    "please some task subtask template that the their them then these this those to use using want was we "
    "what which with you your"
)
"""Words that are ignored in a description."""


def choose_template(library: TaskLibrary, request: SubtaskRequest) -> TaskDefinition:
    """Return the template of a request. Raise TaskFailed with the candidates if there is no match.

    Without a name, templates of the type and subtype that accept the inputs are ranked by exact name among
    the hints, then by words shared with hints and description, then by name. The only template of a subtype
    needs no shared words.
    """
    if request.name is not None:
        found = library.tasks.get(request.name)
        if found is None:
            hint = nearest(request.name, library.tasks)
            raise _not_found(f"there is no template '{request.name}'{hint}", library)
        return found
    candidates = library.find(task_type=request.type, subtype=request.subtype)
    fitting = [one for one in candidates if not input_problems(one, request.inputs)]
    scored = sorted((_score(one, request), one.name) for one in fitting)
    if scored and (scored[0][0] < (0, 0) or (request.subtype is not None and len(scored) == 1)):
        return library.get_task(scored[0][1])
    raise _not_found(_explain_no_match(request, candidates, fitting), candidates or library)


def input_problems(definition: TaskDefinition, inputs: dict[str, Any]) -> list[str]:
    """Return everything that is wrong with the inputs of a template."""
    parameters = [parameter.name for parameter in definition.parameters]
    accepted = [*parameters, *open_inputs(definition.template)]
    missing = [one.name for one in definition.parameters if one.is_required and one.name not in inputs]
    return [
        *(f"{definition.name} needs the input '{name}'" for name in missing),
        *(
            f"{definition.name} has no input '{name}'{nearest(name, accepted)}"
            for name in inputs
            if name not in accepted
        ),
    ]


def _score(definition: TaskDefinition, request: SubtaskRequest) -> tuple[int, int]:
    """Return a sort key; lower is better, and (0, 0) is no match."""
    named = request.template_hints.count(definition.name)
    wanted = words(" ".join((request.description or "", *request.template_hints))) - _STOP_WORDS
    return -min(named, 1), -len(wanted & words_of(definition))


def _explain_no_match(
    request: SubtaskRequest, candidates: list[TaskDefinition], fitting: list[TaskDefinition]
) -> str:
    kind = request.type if request.subtype is None else f"{request.type}, {request.subtype}"
    if not candidates:
        return f"there is no template of that kind ({kind})"
    if not fitting:
        given = ", ".join(f"'{name}'" for name in request.inputs) or "none"
        return f"no template of that kind ({kind}) takes these inputs: {given}"
    return "no template matches the description; use the name of one"


def _not_found(message: str, candidates: Iterable[TaskDefinition]) -> TaskFailed:
    names = sorted(one.name for one in candidates)
    shown = names[:MAX_CANDIDATES]
    listed = f"; templates: {', '.join(shown)}" if shown else "; the library is empty"
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return TaskFailed(
        TaskFailure("template_not_found", f"{message}{listed}{more}", details={"candidates": shown})
    )
