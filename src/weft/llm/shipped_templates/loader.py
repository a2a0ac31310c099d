"""The texts of the shipped templates.

What helps a small model: a schema for every answer, real names to choose from instead of letters, a
description beside each name, a few examples, bounded strings. A reason first does not always help:
asked to judge, the good embedded model argues for what is there, so `evaluate` wants the verdict first. What
stays the same stands in the system prompt, which comes first and is read once.
"""

import json
from collections.abc import Sequence
from importlib import resources

PROMPTS = ("evaluate", "pick", "use_tools", "write_function")

_ANY_NAME = '"choice": {"type": "string", "maxLength": 200}'


def prompt(name: str, *, choices: Sequence[str] | None = None) -> str:
    """The XML of a shipped template; `choices` are the names that `pick` may answer with."""
    if name not in PROMPTS:
        raise KeyError(f"there is no shipped template '{name}': there are {', '.join(PROMPTS)}")
    text = resources.files("weft.llm.shipped_templates").joinpath(f"{name}.xml").read_text("utf-8")
    if choices is None:
        return text
    # Inside a CDATA section, which a name could end; JSON can write the same name without.
    names = json.dumps(list(choices)).replace(">", "\\u003e")
    return text.replace(_ANY_NAME, f'"choice": {{"enum": {names}}}')
