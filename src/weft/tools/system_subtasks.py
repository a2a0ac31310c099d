"""`system:spawn_subtask`: a model has a part of its work done by another task."""

from typing import Any

import msgspec

from weft.evaluator.errors import BudgetExceeded, TaskFailed
from weft.evaluator.plain import told_error
from weft.evaluator.spawning import SPAWN_TOOL
from weft.evaluator.subtask_request import PROPERTIES
from weft.evaluator.subtask_tool import DESCRIPTION
from weft.evaluator.tools import ToolContext, ToolDefinition, ToolFailed


class SpawnSubtask:
    """Hands the request to the evaluator, which knows the templates, checks it and says all that is wrong."""

    has_effects = True
    definition = ToolDefinition(
        name=SPAWN_TOOL,
        description=DESCRIPTION,
        input_schema={
            "type": "object",
            "properties": {name: {"description": one["description"]} for name, one in PROPERTIES.items()},
        },
    )

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """The TaskResult; of a failure its error in the specification's structure, as JSON text."""
        if context.spawn is None:
            raise ToolFailed("only a model spawns subtasks; a program calls the template by its name")
        try:
            return await context.spawn(arguments)
        except BudgetExceeded:
            raise
        except TaskFailed as error:
            raise ToolFailed(msgspec.json.encode(told_error(error.error)).decode()) from None
