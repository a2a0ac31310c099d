"""Loads the XML of the shipped templates.

Small models do better with a schema for every response, real names instead of letters as choices, a
description of each name, a few examples and bounded strings. A reason before the verdict does not always
help: the good embedded model then argues for whatever it judges, so `evaluate` asks for the verdict first.
Constant text is in the system prompt, which comes first and is processed once.
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
    # A name could end the CDATA section around it; JSON can write the same name without ">".
    names = json.dumps(list(choices)).replace(">", "\\u003e")
    return text.replace(_ANY_NAME, f'"choice": {{"enum": {names}}}')
