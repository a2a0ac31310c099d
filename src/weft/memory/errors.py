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


class NotAnIndex(RequestError):
    """The file configured for the index is not a SQLite database of weft."""

    code = "not-an-index"

    def __init__(self, file: str, why: str) -> None:
        super().__init__(f"{file} {why}; nothing was written to it")
        self.file = file


class IndexFileFailed(TransientError):
    """The index file cannot be used now: it is locked or read-only, or its disk is full or failing."""

    code = "index-file-failed"

    def __init__(self, file: str, why: str) -> None:
        super().__init__(f"the index in {file} cannot be used: {why}")
        self.file = file


class IndexDamaged(WeftError):
    """The index file is damaged."""

    code = "index-damaged"

    def __init__(self, file: str, why: str) -> None:
        super().__init__(f"the index in {file} is damaged: {why}")
        self.file = file


class IndexOutdated(RequestError):
    """The index was made by another version of weft and must be rebuilt."""

    code = "index-outdated"

    def __init__(self, file: str) -> None:
        super().__init__(
            f"the index in {file} was made by another version of weft: run `weft index` to rebuild it, "
            "or `weft index drop` to delete it"
        )
        self.file = file


class IndexReplaced(WeftError):
    """Another version of weft rebuilt the index while this process was using it."""

    code = "index-replaced"

    def __init__(self) -> None:
        super().__init__(
            "another version of weft has rebuilt the index: restart this process with that version"
        )


class IndexBusy(TransientError):
    """Another process is updating the same root, and the time to wait for it has passed."""

    code = "index-busy"

    def __init__(self, root: str) -> None:
        super().__init__(f"{root} is being indexed by another process")
        self.root = root


class LeaseLost(TransientError):
    """The lease on a root expired, and another process took over its update."""

    code = "index-lease-lost"

    def __init__(self, root: str) -> None:
        super().__init__(f"the update of {root} was taken over by another process")
        self.root = root
