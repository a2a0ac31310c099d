"""Start aider: its scratch folder, command line, environment and restrictions."""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from weft.integrations.aider.install import AiderProgram
from weft.integrations.aider.request import AiderRequest
from weft.memory.files.git import git_variables, without_own_programs
from weft.tools.roots import CLOSED_FOLDERS, KEPT_FILES

LAUNCHER = Path(__file__).with_name("launcher.py")

CONFIGURATION = frozenset({".aider.conf.yml", ".aider.model.settings.yml", ".aider.model.metadata.json"})
"""What would decide how the next aider runs, where a person starts it without weft."""


class Leash(Struct, frozen=True, kw_only=True):
    """The launcher's first argument, as a JSON file."""

    writable: tuple[str, ...] = ()
    """The folders that aider itself may write in."""
    closed_folders: tuple[str, ...] = tuple(sorted(CLOSED_FOLDERS))
    """Not written in, wherever they are below those. Git writes its own folder itself."""
    kept_files: tuple[str, ...] = tuple(sorted(KEPT_FILES | CONFIGURATION))
    programs: tuple[str, ...] = ("git",)
    """What it may start, by name."""
    is_confined: bool = True
    """Whether all this holds; not while a person is at the keyboard, who decides."""
    first_input: str = ""
    """What stands in the input line when a person gets it."""


def automatic_leash(roots: Iterable[str | Path], scratch: Path, kept_files: Iterable[str] = ()) -> Leash:
    """Where nobody watches: writes inside the roots, in its scratch folder, and in aider's own."""
    own = Path.home() / ".aider"
    kept = KEPT_FILES | CONFIGURATION | {name.casefold() for name in kept_files}
    return Leash(writable=(*map(str, roots), str(scratch), str(own)), kept_files=tuple(sorted(kept)))


def interactive_leash(prompt: str) -> Leash:
    """A person decides what is done, and gets the prompt to send."""
    return Leash(is_confined=False, first_input=prompt)


_COMMANDS = ("/", "!")
"""What aider takes for commands of its own, `/run rm -rf .` among them."""

_QUIET = (
    "--no-analytics", "--no-check-update", "--no-show-release-notes", "--no-show-model-warnings",
    "--no-gitignore", "--no-dirty-commits", "--no-restore-chat-history",
)  # fmt: skip
"""It tells nobody, fetches nothing, asks nothing before it begins, and leaves what is not its own alone."""

_UNATTENDED = (
    "--yes-always", "--no-pretty", "--no-stream", "--no-fancy-input", "--no-detect-urls",
    "--no-suggest-shell-commands", "--no-auto-lint", "--no-auto-test", "--disable-playwright",
)  # fmt: skip

_PASSED_ON = frozenset(
    name
    for upper in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
    for name in (upper, upper.lower())
) | {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "XDG_CONFIG_HOME"}
"""What it needs besides what every program gets of weft's environment: the way out, and git's settings."""

_TERMINAL = frozenset({"TERM", "COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "EDITOR", "VISUAL"})


class Scratch(Struct, frozen=True):
    """The folder of one run: what aider reads from weft, and what it leaves for it."""

    folder: Path

    @property
    def leash(self) -> Path:
        return self.folder / "leash.json"

    @property
    def prompt(self) -> Path:
        return self.folder / "prompt.txt"

    @property
    def metadata(self) -> Path:
        return self.folder / "models.json"

    @property
    def events(self) -> Path:
        return self.folder / "events.jsonl"

    @property
    def transcript(self) -> Path:
        return self.folder / "chat.md"

    def fill(self, request: AiderRequest, leash: Leash) -> None:
        """Write what aider reads. The prompt is in a file: everybody can read a command line."""
        self.leash.write_bytes(msgspec.json.encode(leash))
        self.prompt.write_text(harmless(request.prompt), "utf-8")
        self.metadata.write_bytes(msgspec.json.encode({request.model.name: request.model.metadata}))


def harmless(prompt: str) -> str:
    """The prompt, which aider takes for no command of its own: prompts hold what others wrote."""
    return f"Task: {prompt}" if prompt.lstrip().startswith(_COMMANDS) else prompt


def argv_of(program: AiderProgram, request: AiderRequest, scratch: Scratch, *, is_git: bool) -> list[str]:
    """The command line of a run where nobody watches."""
    return [
        *_common(program, request, scratch, is_git=is_git),
        *_UNATTENDED,
        "--message-file",
        str(scratch.prompt),
    ]


def interactive_argv_of(
    program: AiderProgram, request: AiderRequest, scratch: Scratch, *, is_git: bool
) -> list[str]:
    """The command line of a session with a person."""
    return _common(program, request, scratch, is_git=is_git)


def _common(program: AiderProgram, request: AiderRequest, scratch: Scratch, *, is_git: bool) -> list[str]:
    name = request.model.name
    argv = [program.python, str(LAUNCHER), str(scratch.leash)]
    # One model for everything: another one would go to a server, with a key, that nobody has chosen.
    argv += ["--model", name, "--weak-model", name, "--editor-model", name]
    argv += ["--model-metadata-file", str(scratch.metadata), "--analytics-log", str(scratch.events)]
    argv += ["--chat-history-file", str(scratch.transcript)]
    argv += ["--input-history-file", str(scratch.folder / "input")]
    argv += ["--map-tokens", str(request.map_tokens), *_QUIET]
    argv.append("--git" if is_git else "--no-git")
    argv.append("--auto-commits" if request.auto_commits else "--no-auto-commits")
    if request.edit_format is not None:
        argv += ["--edit-format", request.edit_format]
    for file in request.files:
        argv += ["--file", str(file)]
    return argv


def variables_of(request: AiderRequest, scratch: Scratch, *, has_terminal: bool = False) -> dict[str, str]:
    """What its environment has besides what every program of a task gets."""
    names = _PASSED_ON | _TERMINAL if has_terminal else _PASSED_ON
    passed_on = {name: os.environ[name] for name in names if name in os.environ}
    if not has_terminal:  # a person may push, and trusts the repository that he works in
        passed_on |= git_variables(without_own_programs(request.folder))
    return {
        **passed_on,
        **request.model.environment(),
        "TMPDIR": str(scratch.folder),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # its list of prices comes with it, and is not fetched
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
    }
