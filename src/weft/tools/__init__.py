"""Tools: functions that a program calls by name, and a model if its template lists them."""

from weft.tools.toolbox import Toolbox, open_toolbox

__all__ = ["Toolbox", "open_toolbox"]
