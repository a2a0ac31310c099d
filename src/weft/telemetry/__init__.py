"""OpenTelemetry spans of tasks, model requests and tool calls."""

from weft.telemetry.exporting import set_up, shut_down
from weft.telemetry.spans import Span, current_context, is_content_shown, span

__all__ = ["Span", "current_context", "is_content_shown", "set_up", "shut_down", "span"]
