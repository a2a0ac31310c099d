"""What the executor `aider` takes."""

from typing import Annotated, Literal

from msgspec import Meta

from weft.executor_settings import EDIT_FORMAT
from weft.executors.inputs import Inputs

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
