"""Errors of the index of files."""

from weft.errors import EXIT_NOT_FOUND, RequestError, TransientError, WeftError


class NotIndexed(RequestError):
    """The folder is not in the index."""

    code = "not-indexed"
    exit_code = EXIT_NOT_FOUND

    def __init__(self, root: str) -> None:
        super().__init__(f"{root} is not in the index")
        self.root = root


class RootUnavailable(RequestError):
    """A folder to be indexed does not exist or cannot be read."""

    code = "root-unavailable"

    def __init__(self, root: str, why: str) -> None:
        super().__init__(f"{root}: {why}")
        self.root = root


class IndexFileFailed(TransientError):
    """The index file cannot be used: it is locked, read-only or not weft's, or its disk is full or fails."""

    code = "index-file-failed"

    def __init__(self, file: str, why: str) -> None:
        super().__init__(f"the index in {file} cannot be used: {why}")
        self.file = file


class IndexDamaged(WeftError):
    """The index file is damaged; weft replaces it by a new one."""

    code = "index-damaged"

    def __init__(self, file: str, why: str) -> None:
        super().__init__(f"the index in {file} is damaged: {why}")
        self.file = file


class IndexBusy(TransientError):
    """Another process is updating the index, and the time to wait for it has passed."""

    code = "index-busy"

    def __init__(self, file: str) -> None:
        super().__init__(f"another process is updating the index in {file}")
        self.file = file
