"""aider where nobody watches: one prompt, yes to every question, no terminal, and an end."""

import asyncio
import contextlib
import time

from weft.aider.changes import Look
from weft.aider.invocation import Scratch, argv_of, variables_of
from weft.aider.leash import automatic_leash
from weft.aider.program import AiderProgram
from weft.aider.report import result_of
from weft.aider.request import AiderRequest, AiderResult
from weft.executor_settings import CommandSettings
from weft.executors.process_group import ProcessGroup
from weft.executors.programs import environment_for
from weft.executors.protocol import ExecutionFailed, Work
from weft.secrets.cutting import cut
from weft.threads import run_blocking

MAX_OUTPUT_BYTES = 100_000
"""Of what it prints; the transcript has all that matters of it."""

MAX_SAID_LINES = 8


async def run_automatic(
    request: AiderRequest,
    program: AiderProgram,
    scratch: Scratch,
    look: Look,
    *,
    is_git: bool,
    commands: CommandSettings,
    work: Work,
) -> AiderResult:
    """What aider did; raises ExecutionFailed with it when the model did not answer, or it took too long."""
    scratch.fill(request, automatic_leash(request.roots, scratch.folder, request.kept_files))
    argv = argv_of(program, request, scratch, is_git=is_git)
    started = time.monotonic()
    group = _start(argv, request, scratch, commands, work)
    code = None
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(request.timeout_seconds):
                code = await group.wait()
    finally:
        await group.end(commands.grace_seconds)
    changed = await run_blocking(look.changed, name="weft-aider")
    result = result_of("automatic", request, scratch, changed, code, started)
    _check(result, request, group)
    return result


def _start(
    argv: list[str], request: AiderRequest, scratch: Scratch, commands: CommandSettings, work: Work
) -> ProcessGroup:
    try:
        return ProcessGroup.start(
            argv,
            executable=argv[0],
            # Not the command executor's rules for LD_*: a task does not choose these variables.
            env=environment_for(work, variables_of(request, scratch), CommandSettings()),
            cwd=str(request.folder),
            stdin=None,
            max_output_bytes=MAX_OUTPUT_BYTES,
        )
    except OSError as error:
        raise ExecutionFailed(f"aider cannot be started: {error.strerror or error}") from error


def _check(result: AiderResult, request: AiderRequest, group: ProcessGroup) -> None:
    """Raise ExecutionFailed if aider did not come to its end; it exits with 0 when its model fails, too."""
    said = _last_lines(group.stderr.last_text or group.stdout.last_text)
    if result.exit_code is None:
        message = f"aider did not end within {request.timeout_seconds:g} s"
    elif result.exit_code != 0:
        message = f"aider exited with code {result.exit_code}: {said}"
    elif result.usage.answers == 0:
        message = f"the model did not answer aider: {said}"
    else:
        return
    raise ExecutionFailed(message, details=result.as_json())


def _last_lines(text: str) -> str:
    """Where a program says what went wrong: of a traceback the end, of a token limit all that was counted."""
    lines = [line for line in text.splitlines() if line.strip()]
    return cut("\n".join(lines[-MAX_SAID_LINES:]), 1000)
