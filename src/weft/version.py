"""The version of weft."""

__version__ = "0.1.0"
