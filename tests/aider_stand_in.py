"""A program in aider's place that does what the real one is not to be brought to: hang, and break out.

The real one is in `tests/acceptance/test_aider.py`.
"""

import sys
from pathlib import Path

_MAIN = """
import json, os, subprocess, sys, time


class InputOutput:
    placeholder = None


def get_parser(files, git_root):
    return files


def load_dotenv_files(*_):
    return [".env"]


def setup_git(git_root, io):
    raise AssertionError("it would write into .git/config")


def main():
    argv = sys.argv[1:]
    said = {
        "argv": argv,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "config": get_parser(["a"], None) + load_dotenv_files(),
        "placeholder": InputOutput().placeholder,
    }
    setup_git(None, None)
    given = dict(zip(argv, argv[1:]))
    if "--message-file" in given:
        with open(given["--message-file"]) as file:
            said["prompt"] = file.read()
    with open(given["--chat-history-file"], "w") as file:
        json.dump(said, file)
    with open(given["--analytics-log"], "w") as file:
        properties = {"prompt_tokens": 10, "completion_tokens": 5, "cost": 0.5}
        file.write(json.dumps({"event": "message_send", "properties": properties}) + "\\n")
        file.write('{"event": "message_se')
    ACT
"""


def a_stand_in(folder: Path, act: str = "pass") -> Path:
    """Create an `aider` script that writes its arguments to the transcript, and then acts."""
    package = folder / "packages" / "aider"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "main.py").write_text(_MAIN.replace("ACT", act.replace("\n", "\n    ")))
    python = folder / "python-of-aider"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{package.parent}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    script = folder / "aider"
    script.write_text(f"#!{python}\n")
    script.chmod(0o755)
    return script
