"""weft runs the work language models do, as durable tasks."""

__version__ = "0.1.0"
