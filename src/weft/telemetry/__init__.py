"""OpenTelemetry spans of tasks, model requests and tool calls."""
