"""Folders that tests have aider edit, and how a model answers with an edit."""

import subprocess
from pathlib import Path

from tests.model_server import ModelServer

WRONG = "def add(a, b):\n    return a - b\n"
RIGHT = "def add(a, b):\n    return a + b\n"
KEY = "sk-test-0123456789abcdef"


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def a_repository(folder: Path) -> Path:
    """Create a repository with one wrong file, committed."""
    folder.mkdir(exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "config", "user.name", "Ada")
    git(folder, "config", "user.email", "ada@example.com")
    (folder / "calc.py").write_text(WRONG)
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "Begin")
    return folder


def settings_for(server: ModelServer, more: str = "") -> str:
    """Return a weft.toml whose model is on the server, with a price."""
    return f"""
[models]
default = "served:good"
[models.providers.served]
base_url = "{server.base_url}"
kind = "openai"
api_key_env = "SERVED_KEY"
[models.settings."served:good"]
input_price = 1.0
output_price = 2.0
context_window = 10000
[executors.aider]
edit_format = "whole"
{more}"""


def edit(path: str, text: str) -> str:
    """Return a response that replaces the text of a file, in the edit format `whole`."""
    return f"I change it.\n\n{path}\n```\n{text}```\n"
