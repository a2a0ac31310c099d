"""Spans of OpenTelemetry: what ran, how long, and what it took."""

from weft.telemetry.exporting import set_up, shut_down
from weft.telemetry.spans import Span, current_context, is_content_shown, span

__all__ = ["Span", "current_context", "is_content_shown", "set_up", "shut_down", "span"]
