"""Tools: what a program calls by name, and a model if its template lists it."""

from weft.tools.toolbox import Toolbox, open_toolbox

__all__ = ["Toolbox", "open_toolbox"]
