"""`system:read_files`, `system:list_directory`, `system:write_file`: files inside the roots."""

import logging
from typing import Annotated, Any

from msgspec import Meta

from weft.aio import run_blocking
from weft.errors import RequestError
from weft.evaluator.tools import ToolContext, ToolDefinition, ToolFailed
from weft.secrets.truncation import without_half
from weft.tools.arguments import Arguments, read_arguments, schema_of
from weft.tools.roots import MAX_READ_BYTES, FileText, Roots
from weft.tools.safe_open import PathRefused

log = logging.getLogger(__name__)

MAX_FILES = 50
"""Maximum number of files per call."""

MAX_TOTAL_BYTES = 2 * MAX_READ_BYTES
"""Maximum size of the texts returned by one call; files beyond it are not read."""


class ReadFilesArguments(Arguments, frozen=True, kw_only=True):
    paths: Annotated[
        list[str],
        Meta(
            min_length=1,
            max_length=MAX_FILES,
            description="Paths of files, relative to the project folder. No wildcards.",
        ),
    ]


class ReadFiles:
    """Reads text files.

    Wildcards are not supported: names may contain `*`, and a call should show what it reads.
    """

    has_effects = False
    definition = ToolDefinition(
        name="system:read_files",
        description="Read text files of the project. Returns the content of each path, or an error if it "
        "cannot be read. A long file is truncated, and a note says so.",
        input_schema=schema_of(ReadFilesArguments),
    )

    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return `{"files": [{"path", "content" or "error", "note"}]}`. Fail if no file could be read."""
        paths = read_arguments(ReadFilesArguments, arguments).paths
        files = await run_blocking(lambda: self._read_all(paths), name="weft-files")
        if not any("content" in file for file in files):
            raise ToolFailed("; ".join(file["error"] for file in files))
        return {"files": files}

    def _read_all(self, paths: list[str]) -> list[dict[str, Any]]:
        left = MAX_TOTAL_BYTES
        found = []
        for path in paths:
            one = self._read(path, max_bytes=min(left, MAX_READ_BYTES))
            left -= len(one.get("content", "").encode())
            found.append(one)
        return found

    def _read(self, path: str, *, max_bytes: int) -> dict[str, Any]:
        if max_bytes <= 0:
            return {
                "path": path,
                "error": f"not read: the files before it already have {MAX_TOTAL_BYTES} bytes",
            }
        try:
            read = self._roots.read(path, max_bytes=max_bytes)
        except RequestError as error:
            _log_refusal(error, "system:read_files")
            return {"path": path, "error": error.message}
        if read.is_binary:
            return {"path": path, "error": f"not text: a binary file of {read.size} bytes"}
        content = without_half(read.text) if read.is_cut else read.text
        return {"path": path, "content": content, **_note(read, max_bytes)}


def _log_refusal(error: RequestError, tool: str) -> None:
    # A refused path may be an attack; a missing file is not worth a log line.
    if isinstance(error, PathRefused):
        log.info("%s: %s", tool, error.message, extra={"action": "path_refused", "tool": tool})


def _note(read: FileText, max_bytes: int) -> dict[str, str]:
    return {"note": f"cut: the first {max_bytes} of {read.size} bytes"} if read.is_cut else {}


class ListDirectoryArguments(Arguments, frozen=True, kw_only=True):
    path: Annotated[str, Meta(description="Path of a folder, relative to the project folder.")] = "."


class ListDirectory:
    """Lists a folder."""

    has_effects = False
    definition = ToolDefinition(
        name="system:list_directory",
        description="List a folder of the project: names, kinds (file, folder, link, other) and sizes of "
        "files in bytes, sorted by name. Subfolders are not listed recursively.",
        input_schema=schema_of(ListDirectoryArguments),
    )

    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return `{"path", "entries": [{"name", "kind", "size"}], "note"}`."""
        path = read_arguments(ListDirectoryArguments, arguments).path
        try:
            listing = await run_blocking(lambda: self._roots.list(path), name="weft-files")
        except RequestError as error:
            _log_refusal(error, "system:list_directory")
            raise ToolFailed(error.message) from None
        entries = [
            {"name": entry.name, "kind": entry.kind} | ({} if entry.size is None else {"size": entry.size})
            for entry in listing.entries
        ]
        note = {"note": f"{listing.left_off} more entries are not listed"} if listing.left_off else {}
        return {"path": path, "entries": entries, **note}


class WriteFileArguments(Arguments, frozen=True, kw_only=True):
    path: Annotated[str, Meta(min_length=1, description="Path of the file, relative to the project folder.")]
    content: Annotated[str, Meta(description="The whole new text of the file.")]


class WriteFile:
    """Writes a text file."""

    has_effects = True
    definition = ToolDefinition(
        name="system:write_file",
        description="Write a text file of the project: create it, or replace its whole content. Missing "
        "folders are created.",
        input_schema=schema_of(WriteFileArguments),
    )

    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return `{"path", "bytes"}`."""
        given = read_arguments(WriteFileArguments, arguments)
        try:
            size = await run_blocking(lambda: self._roots.write(given.path, given.content), name="weft-files")
        except RequestError as error:
            _log_refusal(error, "system:write_file")
            raise ToolFailed(error.message) from None
        return {"path": given.path, "bytes": size}
