"""The executor `aider`, which lets aider edit files."""

import os
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from weft.config.sections import ExecutorSettings, ModelsSettings
from weft.executors.protocol import DEFAULT_CANCEL_GRACE_SECONDS, Work, read_inputs, result_schema, schema_of
from weft.integrations.aider.request import AiderInputs
from weft.process.group import KILL_SECONDS
from weft.tasks.record import ExecutorType, JsonObject

if TYPE_CHECKING:
    from weft.integrations.aider.runner import AiderRunner


class Aider:
    """Runs aider in a process group that ends with the task."""

    id = "aider"
    type = ExecutorType.LOCAL
    summary = "Edits files with aider; returns the diff, the commit, the usage and the transcript."
    input_schema = schema_of(AiderInputs)
    output_schema = result_schema(
        mode="string",
        model="string",
        diff="string",
        edited_files={"type": "array", "items": {"type": "string"}},
        commit={"type": ["string", "null"]},
        commits={"type": "array", "items": {"type": "string"}},
        usage=result_schema(
            input_tokens="integer",
            output_tokens="integer",
            cost={"type": ["number", "null"]},
            answers="integer",
        ),
        transcript="string",
        exit_code={"type": ["integer", "null"]},
        duration_seconds="number",
    )
    uses_dependencies = False

    def __init__(
        self,
        settings: ExecutorSettings,
        roots: Sequence[str | Path],
        models: ModelsSettings,
        *,
        say: Callable[[str], None],
        kept_files: Collection[str] = (),
    ) -> None:
        """Create the executor. `say` gets messages about the installation; `kept_files` are never written."""
        self._settings = settings
        self._roots = roots
        self._models = models
        self._say = say
        self._kept_files = kept_files

    @property
    def cancel_grace_seconds(self) -> float:
        """Return the seconds that a cancelled run may take to end, with the grace time of its process."""
        return self._settings.command.grace_seconds + KILL_SECONDS + DEFAULT_CANCEL_GRACE_SECONDS

    async def execute(self, work: Work) -> JsonObject:
        inputs = read_inputs(AiderInputs, work.inputs)
        return (await self._runner.run(inputs, work)).as_json()

    @cached_property
    def _runner(self) -> "AiderRunner":
        # Imported here: every worker has this executor, and few flows use it.
        from weft.integrations.aider.models import AiderModels
        from weft.integrations.aider.runner import AiderRunner

        models = AiderModels(self._models, os.environ)
        return AiderRunner(self._settings, self._roots, models, say=self._say, kept_files=self._kept_files)
