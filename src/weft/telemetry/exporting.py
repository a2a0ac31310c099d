"""Exports spans for the command line; applications that embed weft set their own tracer provider."""

import logging
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

log = logging.getLogger(__name__)

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

_PROVIDERS: list[Any] = []
"""The tracer provider that `set_up` created, if any, for `shut_down`."""


def set_up(environment: Mapping[str, str] = os.environ) -> str | None:
    """Collect and export spans as configured by `OTEL_*` variables; return None, or why that is not possible.

    Without these variables nothing is imported. A missing package is no error: weft works without spans.
    """
    exporter = _exporter_name(environment)
    if exporter is None or _PROVIDERS:
        return None
    if exporter not in ("otlp", "console"):
        return (
            f"no spans are sent: OTEL_TRACES_EXPORTER is {exporter!r}; weft supports otlp, console and none"
        )
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        return "no spans are sent: the OTEL_* variables need pip install 'weft[telemetry]'"
    try:
        span_exporter = _make_exporter(exporter)
    except ImportError:
        return "no spans are sent: OTLP needs pip install opentelemetry-exporter-otlp-proto-http"
    attributes = {} if environment.get("OTEL_SERVICE_NAME") else {"service.name": "weft"}
    provider = TracerProvider(resource=Resource.create(attributes))
    provider.add_span_processor(BatchSpanProcessor(span_exporter))
    trace.set_tracer_provider(provider)
    _PROVIDERS.append(provider)
    return None


def shut_down() -> None:
    """Export pending spans and shut down, if `set_up` created a provider."""
    while _PROVIDERS:
        _PROVIDERS.pop().shutdown()


def _exporter_name(environment: Mapping[str, str]) -> str | None:
    """Return the name of the configured exporter, which may be unsupported; None if spans are turned off."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    named = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if named:
        return None if named == "none" else named
    return "otlp" if any(environment.get(name) for name in _ENDPOINTS) else None


def _make_exporter(name: str) -> Any:
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter(out=sys.stderr)  # standard output is for the results of commands
    return import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter").OTLPSpanExporter()
