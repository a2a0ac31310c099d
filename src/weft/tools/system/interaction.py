"""`system:get_context`, `system:request_user_input` and `system:spawn_subtask`."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from weft.evaluator.conversion import error_json_for_model
from weft.evaluator.errors import BudgetExceeded, TaskFailed
from weft.evaluator.subtasks.request import DESCRIPTION, PROPERTIES
from weft.evaluator.tools import USER_INPUT_TOOL, ToolContext, ToolDefinition, ToolFailed
from weft.language.traversal import SPAWN_TOOL
from weft.tools.arguments import Arguments, read_arguments, schema_of


class GetContextArguments(Arguments, frozen=True, kw_only=True):
    query: Annotated[str, Meta(min_length=1, description="What to look for, in plain words.")]


class GetContext:
    """Queries memory."""

    has_effects = False
    definition = ToolDefinition(
        name="system:get_context",
        description="Find what is relevant to a question in the indexed files of the project. Returns "
        "matches with their paths, and a summary.",
        input_schema=schema_of(GetContextArguments),
    )

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return an AssociativeMatchResult."""
        query = read_arguments(GetContextArguments, arguments).query
        if context.get_context is None:
            raise ToolFailed("memory is not available in this run")
        try:
            return await context.get_context(query)
        except TaskFailed as error:
            raise ToolFailed(error.message) from None


class RequestUserInputArguments(Arguments, frozen=True, kw_only=True):
    question: Annotated[str, Meta(min_length=1, description="What to ask, as a person should read it.")]


class RequestUserInput:
    """Asks a person."""

    has_effects = True
    definition = ToolDefinition(
        name=USER_INPUT_TOOL,
        description="Ask the person who runs this task a question and wait for the answer. Only for what "
        "cannot be found out otherwise.",
        input_schema=schema_of(RequestUserInputArguments),
    )

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return `{"answer"}`."""
        question = read_arguments(RequestUserInputArguments, arguments).question
        if context.ask_person is None:
            raise ToolFailed(
                "there is no person to ask: the run has no terminal, and its questions are not stored"
            )
        try:
            return {"answer": await context.ask_person(question, context.step_key)}
        except TaskFailed as error:
            raise ToolFailed(error.message) from None


class SpawnSubtask:
    """Spawns a subtask. The evaluator, which knows the templates, validates the request."""

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
        """Return the TaskResult of the subtask. Raise ToolFailed with the error as JSON if it fails."""
        if context.spawn is None:
            raise ToolFailed("only a model spawns subtasks; a program calls the template by its name")
        try:
            return await context.spawn(arguments)
        except BudgetExceeded:
            raise
        except TaskFailed as error:
            raise ToolFailed(msgspec.json.encode(error_json_for_model(error.error)).decode()) from None
