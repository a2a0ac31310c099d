"""Loads the XML of the shipped templates.

Small models do better with a schema for every response, real names instead of letters as choices, a
description of each name, a few examples and bounded strings. Asking for a reason before the verdict does not
always help: the best embedded model then argues in favour of what it judges. So `evaluate` asks for the
verdict first.
Text that is the same for all inputs is in the system prompt: it comes first, so models process it only once.
"""

import json
from collections.abc import Sequence
from importlib import resources

PROMPTS = ("evaluate", "pick", "use_tools", "write_function")

_ANY_NAME = '"choice": {"type": "string", "maxLength": 200}'


def prompt(name: str, *, choices: Sequence[str] | None = None) -> str:
    """Return the XML of a shipped template; `choices` are the names that `pick` may respond with."""
    if name not in PROMPTS:
        raise KeyError(f"unknown shipped template '{name}': choose from {', '.join(PROMPTS)}")
    text = resources.files("weft.llm.shipped_templates").joinpath(f"{name}.xml").read_text("utf-8")
    if choices is None:
        return text
    # A name with "]]>" would end the CDATA section around it; in JSON, ">" can be written as an escape.
    names = json.dumps(list(choices)).replace(">", "\\u003e")
    return text.replace(_ANY_NAME, f'"choice": {{"enum": {names}}}')
