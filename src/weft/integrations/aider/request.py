"""The inputs and the result of the executor `aider`."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, field

from weft.config.sections import EDIT_FORMAT
from weft.executors.protocol import Inputs
from weft.llm.providers.access import ApiKey
from weft.tasks.record import JsonObject

Mode = Literal["automatic", "interactive"]


class AiderInputs(Inputs, frozen=True, kw_only=True):
    prompt: Annotated[str, Meta(min_length=1, description="What is to be done.")]
    files: Annotated[
        tuple[str, ...], Meta(description="Files to edit, relative to the folder; inside the roots.")
    ] = ()
    mode: Annotated[Mode, Meta(description="`interactive` hands the terminal to a person; needs one.")] = (
        "automatic"
    )
    model: Annotated[str, Meta(description="An alias or provider:model; default: the project's.")] | None = (
        None
    )
    provider: Annotated[str, Meta(description="Instead of the provider of the model's name.")] | None = None
    folder: Annotated[str, Meta(description="Where to run, inside the roots; default: the first root.")] = "."
    auto_commits: (
        Annotated[bool, Meta(description="Whether it commits, in a git repository; default: the settings'.")]
        | None
    ) = None
    edit_format: (
        Annotated[str, Meta(pattern=EDIT_FORMAT, description="How the model writes edits: diff, whole ...")]
        | None
    ) = None
    timeout_seconds: Annotated[float, Meta(gt=0, description="When to call it off.")] | None = None


class AiderModel(Struct, frozen=True, kw_only=True):
    """A model as aider reaches it. The key is in its environment, never on its command line."""

    id: str
    """`provider:model`, as weft calls it."""
    name: str
    """`openai/gpt-4o`, as aider calls it."""
    key: ApiKey
    key_variable: str
    variables: dict[str, str] = field(default_factory=dict)
    """Further variables: where the provider is."""
    metadata: JsonObject = field(default_factory=dict)
    """Its window and prices. With it aider does not look for them on the network."""
    is_free: bool = False
    """Whether it is known to cost nothing; else a cost of 0 means that the price is not known."""

    def environment(self) -> dict[str, str]:
        """What aider's process gets, the key too."""
        return {**self.variables, self.key_variable: self.key.reveal()}


class AiderRequest(Struct, frozen=True, kw_only=True):
    """One run of aider."""

    prompt: str
    files: tuple[Path, ...] = ()
    """What it may edit at once, absolute and inside the roots; it may ask for other files of the folder."""
    folder: Path
    """Where it runs."""
    roots: tuple[Path, ...]
    """The folders that it may write in."""
    kept_files: tuple[str, ...] = ()
    """Names of files that it never writes, beside those that nobody does."""
    model: AiderModel
    auto_commits: bool = True
    edit_format: str | None = None
    map_tokens: int = 0
    timeout_seconds: float | None = None


class AiderUsage(Struct, frozen=True, kw_only=True):
    """What the conversation took, as aider counts it: messages for commits are not in it."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """US dollars; None: the price is not known."""
    answers: int = 0
    """How often the model answered."""


class AiderResult(Struct, frozen=True, kw_only=True):
    """What a run of aider changed, and what it took."""

    mode: Mode
    model: str
    diff: str
    edited_files: tuple[str, ...]
    commit: str | None
    """The hash of the last commit that was made; None: none was."""
    commits: tuple[str, ...]
    usage: AiderUsage
    transcript: str
    exit_code: int | None
    """None: it was stopped because it took too long."""
    duration_seconds: float

    def as_json(self) -> JsonObject:
        """The result as records and programs have it: with lists, no tuples."""
        plain: JsonObject = msgspec.json.decode(msgspec.json.encode(self))
        return plain
