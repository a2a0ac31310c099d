"""Check that the models a program may use are available, before its first effect."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, structs

from weft.config.sections import ModelsSettings
from weft.config.toml import LOCAL
from weft.errors import RequestError
from weft.language.ast import (
    Atomic,
    Define,
    DirectorEvaluatorLoop,
    FunctionCall,
    Literal,
    Node,
    Reference,
    TaskCond,
    TaskNode,
    Template,
    Try,
    Variable,
)
from weft.language.library import TaskLibrary, best_evaluator, definition_of
from weft.language.task_fields import AIDER_SUBTYPES
from weft.llm.errors import ModelError
from weft.llm.models import model_name_problem, resolved
from weft.llm.providers.access import access_to


class ModelUnusable(RequestError):
    """A program uses a model that is unknown, or that has no API key."""

    code = "model-unusable"


class AskedModel(Struct, frozen=True):
    """Model of a task, as far as it is known before the program runs."""

    name: str | None = None
    """None: the default model."""
    provider: str | None = None
    is_known: bool = True
    """False where the program computes the name."""
    is_tried: bool = False
    """Whether the task is inside `try`, where a failure may be intended."""

    def of(self, node: TaskNode) -> "AskedModel":
        """Return the model of a task, given this model of the enclosing task."""
        if node.model is not None:
            return AskedModel(node.model, node.provider, is_tried=self.is_tried)
        return self if node.provider is None else structs.replace(self, provider=node.provider)


def require_models(
    forms: Iterable[Node],
    library: TaskLibrary,
    settings: Callable[[], ModelsSettings],
    environment: Mapping[str, str],
    *,
    model: str | None = None,
    functions: Iterable[Define] = (),
) -> None:
    """Raise ModelUnusable if the program may use a model that is not available; no request is made.

    `model` is the default model, `functions` are the functions of libraries. Inside `try` a key may be
    missing: the program may fall back to another model.
    """
    wanted = list(dict.fromkeys(_ModelFinder(forms, library, functions).find()))
    known = settings() if wanted else ModelsSettings()
    problems = dict.fromkeys(_problem_of(one, model, known, environment) for one in wanted)
    problems.pop(None, None)
    if problems:
        raise ModelUnusable("; ".join(filter(None, problems)))


def _problem_of(
    asked: AskedModel, default: str | None, known: ModelsSettings, environment: Mapping[str, str]
) -> str | None:
    try:
        found = resolved(default if asked.name is None else asked.name, known, asked.provider)
        if found.provider == LOCAL:
            return model_name_problem(str(found), known)
        if not asked.is_tried:
            access_to(found.provider, known, environment)
    except ModelError as error:
        return error.message
    return None


class _ModelFinder:
    """Walks over everything that a program can reach, and finds the models of its tasks."""

    def __init__(self, forms: Iterable[Node], library: TaskLibrary, functions: Iterable[Define]) -> None:
        self._forms = list(forms)
        own = [form for form in self._forms if isinstance(form, Template)]
        definitions = {one.name: one for one in library} | {form.name: definition_of(form) for form in own}
        self._definitions = tuple(definitions.values())
        self._templates = {name: one.template.body for name, one in definitions.items()}
        self._functions = {one.name: one.value for one in functions}
        self._stack: list[tuple[Any, AskedModel]] = []
        self._seen: set[tuple[str, AskedModel, AskedModel | None]] = set()

    def find(self) -> Iterator[AskedModel]:
        """Yield the model of every task; without recursion, because trees may be deep."""
        default = AskedModel()
        self._stack = [(form, default) for form in self._forms if not isinstance(form, Template)]
        while self._stack:
            node, enclosing = self._stack.pop()
            if isinstance(node, tuple | list):
                self._stack.extend((one, enclosing) for one in node)
            elif isinstance(node, Struct):
                yield from self._visit(node, enclosing)

    def _visit(self, node: Struct, enclosing: AskedModel) -> Iterator[AskedModel]:
        inside = enclosing
        if isinstance(node, Reference):
            is_changing = node.model is not None or node.provider is not None
            self._use(node.ref, enclosing, node if is_changing else None)
        elif isinstance(node, TaskNode):
            inside = enclosing.of(node)
            if isinstance(node, Atomic) and node.subtype not in AIDER_SUBTYPES and inside.is_known:
                yield inside
        elif isinstance(node, FunctionCall):
            self._use(node.func_name, enclosing, dict(node.keywords).get("model"))
        elif isinstance(node, Variable):
            self._use(node.name, enclosing)
        if isinstance(node, TaskCond) or (isinstance(node, DirectorEvaluatorLoop) and node.evaluator is None):
            chosen = best_evaluator(self._definitions, node.criteria or "")
            if chosen is not None:
                self._use(chosen.name, inside)
        for name in node.__struct_fields__:
            if name != "span":
                is_tried = isinstance(node, Try) and name == "body"
                within = structs.replace(inside, is_tried=True) if is_tried else inside
                self._stack.append((getattr(node, name), within))

    def _use(self, name: str, enclosing: AskedModel, choice: Node | None = None) -> None:
        """Visit the definition of a name; `choice` is the reference or argument that chooses its model."""
        body = self._templates.get(name, self._functions.get(name))
        if body is None:
            return
        chosen = None if choice is None or not isinstance(body, TaskNode) else _chosen_model(choice, body)
        if (name, enclosing, chosen) in self._seen:
            return
        self._seen.add((name, enclosing, chosen))
        if chosen is not None and isinstance(body, TaskNode):
            body = structs.replace(body, model=chosen.name, provider=chosen.provider)
            enclosing = structs.replace(enclosing, is_known=chosen.is_known and enclosing.is_known)
        self._stack.append((body, enclosing))


def _chosen_model(choice: Node, body: TaskNode) -> AskedModel:
    """Return the model of a template that is referenced with another model, or called with `:model`."""
    if isinstance(choice, Reference):
        return AskedModel(choice.model or body.model, choice.provider or body.provider)
    if isinstance(choice, Literal) and isinstance(choice.value, str):
        return AskedModel(choice.value, body.provider)
    return AskedModel(is_known=False)
