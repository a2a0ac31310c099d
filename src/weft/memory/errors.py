"""What can go wrong with an index."""

from weft.errors import EXIT_NOT_FOUND, RequestError, TransientError, WeftError


class NotIndexed(RequestError):
    """A root was named that is not in the index."""

    code = "not-indexed"
    exit_code = EXIT_NOT_FOUND

    def __init__(self, root: str) -> None:
        super().__init__(f"{root} is not in the index")
        self.root = root


class RootUnavailable(RequestError):
    """A root is no folder that can be read."""

    code = "root-unavailable"

    def __init__(self, root: str, why: str) -> None:
        super().__init__(f"{root}: {why}")
        self.root = root


class NotAnIndex(RequestError):
    """The file that the index should be kept in is another program's."""

    code = "not-an-index"

    def __init__(self, file: str, why: str) -> None:
        super().__init__(f"{file} {why}; nothing was written to it")
        self.file = file


class IndexFileFailed(TransientError):
    """The file of the index cannot be read or written now: it is locked, or its disk is full or fails."""

    code = "index-file-failed"

    def __init__(self, file: str, why: str) -> None:
        super().__init__(f"the index in {file} cannot be used: {why}")
        self.file = file


class IndexDamaged(WeftError):
    """The file of the index is damaged."""

    code = "index-damaged"

    def __init__(self, file: str, why: str) -> None:
        super().__init__(f"the index in {file} is damaged: {why}")
        self.file = file


class IndexOutdated(RequestError):
    """The index has the shape of another version, and whoever asks is not to make it anew."""

    code = "index-outdated"

    def __init__(self, file: str) -> None:
        super().__init__(
            f"the index in {file} is of another version of weft: `weft index` makes it anew, "
            "`weft index drop` takes it out"
        )
        self.file = file


class IndexReplaced(WeftError):
    """A weft of another version made the index anew while this process used it."""

    code = "index-replaced"

    def __init__(self) -> None:
        super().__init__(
            "another version of weft has made the index anew: end this process and start it with that version"
        )


class IndexBusy(TransientError):
    """Another process updates the root, for longer than we wait."""

    code = "index-busy"

    def __init__(self, root: str) -> None:
        super().__init__(f"{root} is being indexed by another process")
        self.root = root


class LeaseLost(TransientError):
    """Another process took the root over, because we said nothing for too long."""

    code = "index-lease-lost"

    def __init__(self, root: str) -> None:
        super().__init__(f"the update of {root} was taken over by another process")
        self.root = root
