"""Inputs, request and result of the executor `aider`."""

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
    prompt: Annotated[str, Meta(min_length=1, description="The instruction for aider.")]
    files: Annotated[
        tuple[str, ...], Meta(description="Files to edit, relative to the folder; inside the roots.")
    ] = ()
    mode: Annotated[Mode, Meta(description="`interactive` needs a terminal and a person.")] = "automatic"
    model: Annotated[str, Meta(description="An alias or provider:model; default: the project's.")] | None = (
        None
    )
    provider: Annotated[str, Meta(description="Replaces the provider in the model's name.")] | None = None
    folder: Annotated[str, Meta(description="Where to run, inside the roots; default: the first root.")] = "."
    auto_commits: (
        Annotated[bool, Meta(description="Whether aider commits to git; default: from the settings.")] | None
    ) = None
    edit_format: (
        Annotated[str, Meta(pattern=EDIT_FORMAT, description="How the model writes edits: diff, whole ...")]
        | None
    ) = None
    timeout_seconds: Annotated[float, Meta(gt=0, description="Time limit of the run.")] | None = None


class AiderModel(Struct, frozen=True, kw_only=True):
    """A model as aider uses it. The key is passed in the environment, never on the command line."""

    id: str
    """The name in weft: `provider:model`."""
    name: str
    """The name in aider, such as `openai/gpt-4o`."""
    key: ApiKey
    key_variable: str
    variables: dict[str, str] = field(default_factory=dict)
    """Further environment variables: the address of the provider."""
    metadata: JsonObject = field(default_factory=dict)
    """Context window and prices, so that aider does not download them."""
    is_free: bool = False
    """Whether the model is known to be free; otherwise a cost of 0 means that the price is unknown."""

    def environment(self) -> dict[str, str]:
        """Return the environment variables for aider, with the key."""
        return {**self.variables, self.key_variable: self.key.reveal()}


class AiderRequest(Struct, frozen=True, kw_only=True):
    """One run of aider."""

    mode: Mode = "automatic"
    prompt: str
    files: tuple[Path, ...] = ()
    """Files that aider has from the start: absolute, inside the roots. The model may ask for more files."""
    folder: Path
    """The working directory."""
    roots: tuple[Path, ...]
    """The folders that aider may write in."""
    kept_files: tuple[str, ...] = ()
    """Names of files that aider may not write, besides those that no task may write."""
    model: AiderModel
    auto_commits: bool = True
    edit_format: str | None = None
    map_tokens: int = 0
    """Most tokens of aider's map of the repository; 0 for no map."""
    timeout_seconds: float | None = None


class AiderUsage(Struct, frozen=True, kw_only=True):
    """Usage of the conversation as counted by aider, without the requests for commit messages."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """In US dollars; None if the price is unknown."""
    answers: int = 0
    """Number of responses of the model."""


class AiderResult(Struct, frozen=True, kw_only=True):
    """Changes, usage and transcript of an aider run."""

    mode: Mode
    model: str
    diff: str
    edited_files: tuple[str, ...]
    commit: str | None
    """Hash of the last commit that aider made; None without a commit."""
    commits: tuple[str, ...]
    usage: AiderUsage
    transcript: str
    exit_code: int | None
    """None if the run timed out."""
    duration_seconds: float

    def as_json(self) -> JsonObject:
        """Return the result as JSON values, with lists instead of tuples."""
        plain: JsonObject = msgspec.json.decode(msgspec.json.encode(self))
        return plain
