"""Secret values, and their redaction in logs, errors, records and responses."""

from weft.secrets.references import (
    SecretNotAllowed,
    SecretSettings,
    has_references,
    is_secret_name,
    masked,
    register_environment,
    resolved,
)
from weft.secrets.registry import (
    MIN_CHARACTERS,
    Registry,
    forget_all,
    has_secrets,
    redact,
    redact_json,
    redact_struct,
    register,
)
from weft.secrets.truncation import cut, cut_middle, without_half
from weft.secrets.value import Secret, secret

__all__ = [
    "MIN_CHARACTERS",
    "Registry",
    "Secret",
    "SecretNotAllowed",
    "SecretSettings",
    "cut",
    "cut_middle",
    "forget_all",
    "has_references",
    "has_secrets",
    "is_secret_name",
    "masked",
    "redact",
    "redact_json",
    "redact_struct",
    "register",
    "register_environment",
    "resolved",
    "secret",
    "without_half",
]
