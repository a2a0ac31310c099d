"""`system:get_context` and `system:request_user_input`: what memory and people know."""

from typing import Annotated, Any

from msgspec import Meta

from weft.evaluator.errors import TaskFailed
from weft.evaluator.tools import ASKS_PEOPLE, ToolContext, ToolDefinition, ToolFailed
from weft.tools.arguments import Arguments, read_arguments, schema_of


class GetContextArguments(Arguments, frozen=True, kw_only=True):
    query: Annotated[str, Meta(min_length=1, description="What to look for, in plain words.")]


class GetContext:
    """Asks memory."""

    has_effects = False
    definition = ToolDefinition(
        name="system:get_context",
        description="Find what is relevant to a question in the indexed files of the project. Gives matches "
        "with their paths and a summary.",
        input_schema=schema_of(GetContextArguments),
    )

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """An AssociativeMatchResult."""
        query = read_arguments(GetContextArguments, arguments).query
        if context.get_context is None:
            raise ToolFailed("there is no memory here to ask: nothing is indexed")
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
        name=ASKS_PEOPLE,
        description="Ask the person who runs this task a question and wait for the answer. Only for what "
        "cannot be found out otherwise.",
        input_schema=schema_of(RequestUserInputArguments),
    )

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """`{"answer"}`."""
        question = read_arguments(RequestUserInputArguments, arguments).question
        if context.ask_person is None:
            raise ToolFailed("there is no person to ask: nobody runs this task at a terminal")
        try:
            return {"answer": await context.ask_person(question, context.step_key)}
        except TaskFailed as error:
            raise ToolFailed(error.message) from None
