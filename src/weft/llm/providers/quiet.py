"""Libraries do not write to the standard error of a program that has not set up logging.

Imports pydantic-ai: import it when a model is asked.
"""

import logging
import warnings

from pydantic_ai.exceptions import UsageExtractionFailedWarning

LOGGERS = ("pydantic_ai", "openai", "anthropic", "google_genai", "google", "httpx2", "httpcore2")
"""Python writes warnings of loggers without a handler to standard error. What they have to say is in our
errors; a program that sets up logging gets it as before."""


def keep_quiet() -> None:
    """Keep the libraries off standard error; done again it changes nothing."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            logger.addHandler(logging.NullHandler())
    # Where the usage of an answer makes no sense it is estimated, and marked so.
    warnings.filterwarnings("ignore", category=UsageExtractionFailedWarning)
