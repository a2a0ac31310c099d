"""The tutorials can be followed: their files are saved, their commands run, and the output is the page's."""

import re
import shlex
import signal
import subprocess
from pathlib import Path

from tests.command_line import weft
from tests.model_server import Exchange, ModelServer, gives_json, says, write_settings

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorial"

BLOCK = re.compile(r"(?:`([\w.-]+)`:\n\n)?```(\w*)\n(.*?)```", re.DOTALL)
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

VARIABLE = (
    (UUID, "<id>"),
    (re.compile(r"\b[0-9a-f]{8}\b"), "<short id>"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "<date>"),
    (re.compile(r"\d\d:\d\d:\d\d"), "<time>"),
    (re.compile(r"(?<= )(\d+m)?\d+(\.\d+)?s\b"), "<duration>"),
    (re.compile(r"\d+ tokens.*"), "<tokens and cost>"),
)
"""What differs from run to run."""

PROGRESS = re.compile(r"^(?:[a-z ]{10} \S.*|no provider is configured.*)\n", re.MULTILINE)
"""What weft prints instead of a live tree where there is no terminal, and which model it chose."""


async def respond(exchange: Exchange) -> None:
    """Respond as the pages show it."""
    system, prompt = (exchange.request.body["messages"][index]["content"] for index in (0, -1))
    if "teapot" in prompt:
        reaction = says("A teapot is a small, round pot used for brewing tea.")
    elif "happy or unhappy" in system:
        reaction = gives_json("unhappy" if "broke" in prompt else "happy")
    elif "refund" in system:
        reaction = says("I'm sorry to hear that. Please let me know if you need a refund.")
    else:
        reaction = says(
            "I'm sorry to hear that the handle broke on the first day. "
            "Let me know if there's anything else I can help you with."
        )
    await reaction(exchange)


class Reader:
    """Somebody who follows the pages in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ids: dict[str, str] = {}
        """What the ids of the pages are here."""

    def follow(self, name: str) -> int:
        """Save the files and run the commands of a page; return how many commands it has."""
        count = 0
        for file, kind, text in BLOCK.findall((TUTORIALS / name).read_text()):
            if file:
                (self.folder / file).write_text(text)
            elif kind == "console":
                for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                    command, _, shown = part.partition("\n")
                    self._compare(command, shown)
                    count += 1
        return count

    def _compare(self, command: str, shown: str) -> None:
        out, err = self._run(UUID.sub(lambda found: self.ids[found[0]], command))
        pattern = _pattern(shown)
        # Which of the two a terminal shows first depends on the command.
        assert any(re.fullmatch(pattern, _generalise(text)) for text in (err + out, out + err)), (
            f"{command}\n{err}{out}"
        )
        self.ids |= dict(zip(UUID.findall(shown), UUID.findall(err + out), strict=False))

    def _run(self, command: str) -> tuple[str, str]:
        words = shlex.split(command)
        if words[0] == "weft":
            ran = weft(*words[1:], db=None, cwd=self.folder, SERVED_KEY="sk-test-0123456789abcdef")
            killed = ran.code in (-signal.SIGKILL, 128 + signal.SIGKILL)
            return ran.out, PROGRESS.sub("", ran.err) + ("Killed\n" if killed else "")  # says the shell
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=True)
        return done.stdout, done.stderr


def _generalise(text: str) -> str:
    for pattern, replacement in VARIABLE:
        text = pattern.sub(replacement, text)
    return text


def _pattern(shown: str) -> str:
    """Return a pattern for what a page shows, in which a line of three dots stands for any lines."""
    lines = _generalise(shown).splitlines(keepends=True)
    return "".join("(?:.*\n)*" if line == "...\n" else re.escape(line) for line in lines)


def test_the_tutorials_can_be_followed_one_after_the_other(tmp_path: Path, model_server: ModelServer) -> None:
    write_settings(tmp_path, model_server)
    model_server.always(respond)
    reader = Reader(tmp_path)

    counts = [reader.follow(page.name) for page in sorted(TUTORIALS.glob("*.md"))]

    assert counts == [5, 4, 5]
    assert len(model_server.requests) == 1 + 4 + 1
