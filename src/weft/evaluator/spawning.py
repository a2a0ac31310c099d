"""How whoever performs a step hands a subtask back to the evaluator.

A model asks for subtasks while its own task is under way. So the step that it works on carries a `Spawn`, if
its template lists the tool: with it the subtask is evaluated below that step, through the same effects, and
paid for out of the same budgets. Nothing else in a step lets anybody evaluate anything.
"""

from typing import Any, Protocol

from weft.evaluator.results import TaskResult
from weft.evaluator.tools import ToolDefinition
from weft.language.used_names import SPAWN_TOOL as SPAWN_TOOL


class Subtask(Protocol):
    """A subtask that may begin: its request is valid, a template is chosen, the limits allow it."""

    @property
    def key(self) -> str:
        """The key of its step: that of the step which spawns it, and a number: `3/1/s2`."""
        ...

    @property
    def template(self) -> str:
        """The name of the template that was chosen."""
        ...

    @property
    def depth(self) -> int:
        """How many subtasks it is inside of, itself included: 1 for that of a task which nobody spawned."""
        ...

    async def run(self) -> TaskResult:
        """Its completed result.

        Raises TaskFailed (`subtask_failure`), which a model may be told of, and BudgetExceeded when a budget
        around the spawning task is used up, or one of the whole chain: nobody inside may go on then.
        """
        ...


class Spawn(Protocol):
    """Lets one step spawn subtasks."""

    def definition(self) -> ToolDefinition:
        """What a model is told of the tool: which templates there are, and what they take."""
        ...

    def begin(self, request: dict[str, Any], number: int) -> Subtask:
        """The subtask that a `SubtaskRequest`, as JSON, asks for; raises as `Subtask.run` does.

        The number is the caller's: the same for the same request whenever the step is performed again, and
        another one for each request of the step. It makes the key of the subtask.
        """
        ...
