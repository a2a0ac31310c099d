"""Programs whose models spawn subtasks: everything is real but the model and the index."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from weft import testing
from weft.app.evaluation import evaluate_async
from weft.config.sections import CommandSettings, HandlerSettings, ToolsSettings
from weft.effects.local import LocalEffects
from weft.effects.resources import RootFiles
from weft.evaluator.budget import EvaluationLimits
from weft.evaluator.effects import UNLIMITED, BudgetAccount, ModelCall, Step
from weft.evaluator.results import TaskResult
from weft.evaluator.tools import ToolUse
from weft.llm.events import ModelEvent, SubtaskChanged, SubtaskRefused
from weft.llm.payload import HandlerPayload, ToolMessage
from weft.testing.scripted_model import ScriptedModel, tool_use
from weft.tools import open_toolbox
from weft.tools.roots import Roots

SPAWN = "system:spawn_subtask"

PROGRAM = """
(deftask explain (topic) :description "Explain a topic in plain words" :instructions "Explain {{topic}}.")
(deftask boss (goal) :instructions "Reach {{goal}}." :tools ("system:spawn_subtask"))
"""


def spawn(name: str | None = "explain", **request: Any) -> ToolUse:
    """Return a scripted request for a subtask."""
    named = {} if name is None else {"name": name}
    return tool_use(SPAWN, **{"type": "atomic", "inputs": {}, **named, **request})


def heard(payload: HandlerPayload) -> list[ToolMessage]:
    """Return the tool results of the session so far."""
    return [message for message in payload.messages if isinstance(message, ToolMessage)]


def error_in(payload: HandlerPayload) -> dict[str, Any]:
    """Return the error that the model received last."""
    message = heard(payload)[-1]
    assert message.is_error
    told: dict[str, Any] = json.loads(message.content)
    return told


class World(LocalEffects):
    """Effects with one scripted model; keeps the keys of steps, and the events."""

    def __init__(self, folder: Path, answers: Any, *, max_turns: int = 20, **model: Any) -> None:
        self.model = ScriptedModel(answers, **model)
        self.events: list[ModelEvent] = []
        self.steps: list[Step] = []
        self.known: dict[str, TaskResult] = {}
        """Results of composite steps that were kept by an earlier run."""
        roots = Roots([folder])
        super().__init__(
            models=testing.models(self.model),
            tools=open_toolbox(ToolsSettings(roots=(str(folder),)), folder, {}),
            files=RootFiles(roots),
            commands=CommandSettings(),
            handler=HandlerSettings(max_turns=max_turns),
            memory=testing.memory(folder),
            on_event=self.events.append,
        )

    async def call_model(self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED) -> TaskResult:
        self.steps.append(step)
        return await super().call_model(step, call, account)

    async def around(self, step: Step, body: Callable[[], Awaitable[TaskResult]]) -> TaskResult:
        self.steps.append(step)
        if step.key in self.known:
            return self.known[step.key]
        return await super().around(step, body)

    async def run(self, program: str, limits: EvaluationLimits | None = None) -> Any:
        return await evaluate_async(program, effects=self, limits=limits)

    def keys(self) -> list[str]:
        return [step.key for step in self.steps]

    def statuses(self) -> list[tuple[str, str]]:
        return [(one.subtask_key, one.status) for one in self.events if isinstance(one, SubtaskChanged)]

    def refusals(self) -> list[str]:
        return [one.reason for one in self.events if isinstance(one, SubtaskRefused)]
