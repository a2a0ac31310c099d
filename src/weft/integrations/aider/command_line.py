"""The scratch folder, command line, environment and restrictions of an aider process."""

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from weft.integrations.aider.install import AiderProgram
from weft.integrations.aider.request import AiderRequest
from weft.memory.files.git import disable_repository_commands, git_variables
from weft.tools.roots import CLOSED_FOLDERS, READ_ONLY_FILES

LAUNCHER = Path(__file__).with_name("launcher.py")

CONFIGURATION = frozenset({".aider.conf.yml", ".aider.model.settings.yml", ".aider.model.metadata.json"})
"""Files that would configure a later aider that a person starts without weft."""


class Restrictions(Struct, frozen=True, kw_only=True):
    """The restrictions that the launcher enforces, written as a JSON file."""

    writable: tuple[str, ...] = ()
    """The folders that aider itself may write in."""
    closed_folders: tuple[str, ...] = tuple(sorted(CLOSED_FOLDERS))
    """Names of folders that aider may not write in, at any depth. `.git` is written by git, not by aider."""
    kept_files: tuple[str, ...] = tuple(sorted(READ_ONLY_FILES | CONFIGURATION))
    """Names of files that aider may not write, in any folder."""
    programs: tuple[str, ...] = ("git",)
    """Names of the executables that aider may start."""
    is_confined: bool = True
    """Whether the restrictions apply; False in interactive sessions, where a person decides."""
    first_input: str = ""
    """The initial text of the input line in an interactive session."""


def restrictions_of(request: AiderRequest, scratch: Path) -> Restrictions:
    """Return restrictions that allow writes only in the roots, the scratch folder and `~/.aider`.

    An interactive session has none, and the prompt in the input line, for the person to send.
    """
    if request.mode == "interactive":
        return Restrictions(is_confined=False, first_input=request.prompt)
    kept = READ_ONLY_FILES | CONFIGURATION | {name.casefold() for name in request.kept_files}
    writable = (*request.roots, scratch, Path.home() / ".aider")
    return Restrictions(writable=tuple(map(str, writable)), kept_files=tuple(sorted(kept)))


_COMMAND_PREFIXES = ("/", "!")
"""Prefixes of aider's own commands, such as `/run rm -rf .`."""

_COMMON_OPTIONS = (
    "--no-analytics", "--no-check-update", "--no-show-release-notes", "--no-show-model-warnings",
    "--no-gitignore", "--no-dirty-commits", "--no-restore-chat-history",
)  # fmt: skip
"""No telemetry, no update checks, no questions at the start, and no changes to the user's own files."""

_AUTOMATIC_OPTIONS = (
    "--yes-always", "--no-pretty", "--no-stream", "--no-fancy-input", "--no-detect-urls",
    "--no-suggest-shell-commands", "--no-auto-lint", "--no-auto-test", "--disable-playwright",
)  # fmt: skip

_PASSED_VARIABLES = frozenset(
    name
    for upper in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
    for name in (upper, upper.lower())
) | {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "XDG_CONFIG_HOME"}
"""Environment variables that aider needs besides those of every executable: proxies, certificates, git."""

_TERMINAL_VARIABLES = frozenset({"TERM", "COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "EDITOR", "VISUAL"})


class Scratch:
    """The temporary folder of one run, with aider's input files and logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.restrictions = folder / "restrictions.json"
        self.prompt = folder / "prompt.txt"
        self.metadata = folder / "models.json"
        self.events = folder / "events.jsonl"
        self.transcript = folder / "chat.md"

    def fill(self, request: AiderRequest) -> None:
        """Write aider's input files. The prompt is in a file, because other users can read command lines."""
        self.restrictions.write_bytes(msgspec.json.encode(restrictions_of(request, self.folder)))
        self.prompt.write_text(harmless(request.prompt), "utf-8")
        self.metadata.write_bytes(msgspec.json.encode({request.model.name: request.model.metadata}))


def harmless(prompt: str) -> str:
    """Return the prompt, changed if aider would read it as a command: prompts may contain untrusted text."""
    return f"Task: {prompt}" if prompt.lstrip().startswith(_COMMAND_PREFIXES) else prompt


def argv_of(program: AiderProgram, request: AiderRequest, scratch: Scratch, *, is_git: bool) -> list[str]:
    """Return the command line of aider."""
    name = request.model.name
    argv = [program.python, str(LAUNCHER), str(scratch.restrictions)]
    # One model for everything: aider's default models would use servers and keys that nobody has chosen.
    argv += ["--model", name, "--weak-model", name, "--editor-model", name]
    argv += ["--model-metadata-file", str(scratch.metadata), "--analytics-log", str(scratch.events)]
    argv += ["--chat-history-file", str(scratch.transcript)]
    argv += ["--input-history-file", str(scratch.folder / "input")]
    argv += ["--map-tokens", str(request.map_tokens), *_COMMON_OPTIONS]
    argv.append("--git" if is_git else "--no-git")
    argv.append("--auto-commits" if request.auto_commits else "--no-auto-commits")
    if request.edit_format is not None:
        argv += ["--edit-format", request.edit_format]
    for file in request.files:
        argv += ["--file", str(file)]
    if request.mode == "automatic":
        argv += [*_AUTOMATIC_OPTIONS, "--message-file", str(scratch.prompt)]
    return argv


def variables_of(request: AiderRequest, scratch: Scratch) -> dict[str, str]:
    """Return the environment variables of aider, besides those of every executable of a task."""
    has_terminal = request.mode == "interactive"
    names = _PASSED_VARIABLES | _TERMINAL_VARIABLES if has_terminal else _PASSED_VARIABLES
    passed_on = {name: os.environ[name] for name in names if name in os.environ}
    if not has_terminal:  # with a terminal, a person trusts the repository and may push
        passed_on |= git_variables(disable_repository_commands(request.folder))
    return {
        **passed_on,
        **request.model.environment(),
        "TMPDIR": str(scratch.folder),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # use the bundled price list, without a download
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
    }
