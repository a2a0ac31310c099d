"""Inputs of the `http` executor."""

import re
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, field

from weft.executors.protocol import Inputs, permanent_failure, read_inputs
from weft.tasks.record import JsonObject

DEFAULT_TIMEOUT_SECONDS = 60.0
DEFAULT_MAX_BYTES = 10 * 1024 * 1024

_Value = str | int | float | bool
_Status = Annotated[int, Meta(ge=100, le=599)]

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")

_SET_BY_WEFT = frozenset(
    {"connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers that a task may not set: a server could then read another request than weft sent (smuggling)."""


class HttpInputs(Inputs, frozen=True, kw_only=True):
    url: Annotated[str, Meta(min_length=1, description="An http or https URL.")]
    method: Annotated[
        Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
        Meta(description="HTTP method."),
    ] = "GET"
    headers: Annotated[dict[str, str], Meta(description="Headers to send.")] = field(default_factory=dict)
    params: Annotated[dict[str, _Value | list[_Value]], Meta(description="Added to the URL's query.")] = (
        field(default_factory=dict)
    )
    json: Annotated[Any, Meta(description="Body to send as JSON.")] | UnsetType = UNSET
    body: Annotated[str, Meta(description="Body to send unchanged, in UTF-8.")] | UnsetType = UNSET
    timeout_seconds: Annotated[
        float, Meta(gt=0, description="Time limit for connecting, redirects and reading the response.")
    ] = DEFAULT_TIMEOUT_SECONDS
    max_bytes: Annotated[
        int, Meta(ge=0, description="Maximum size of the response body; more is truncated.")
    ] = DEFAULT_MAX_BYTES
    follow_redirects: Annotated[bool, Meta(description="Follow redirects.")] = True
    expect_status: Annotated[
        _Status | list[_Status] | None,
        Meta(description="The only status codes that complete the task; default: below 400."),
    ] = None
    check: Annotated[bool, Meta(description="Fail the task for other status codes.")] = True

    def is_expected(self, status: int) -> bool:
        """Return True if a response with this status completes the task."""
        if not self.check:
            return True
        if self.expect_status is None:
            return status < 400
        expected = self.expect_status if isinstance(self.expect_status, list) else [self.expect_status]
        return status in expected


def read_http_inputs(inputs: JsonObject) -> HttpInputs:
    """Read the inputs. Raise a permanent ExecutionFailed if they are invalid or have unsafe headers."""
    read = read_inputs(HttpInputs, inputs)
    if read.json is not UNSET and read.body is not UNSET:
        raise permanent_failure("give 'json' or 'body', not both")
    for name, value in read.headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            # A line break would start another header, or another request.
            raise permanent_failure(f"header {name!r} has invalid characters")
        if name.lower() in _SET_BY_WEFT or name.lower().startswith("proxy-"):
            raise permanent_failure(f"header '{name}' is set by weft itself")
    return read
