"""What can go wrong with an index."""

from weft.errors import EXIT_NOT_FOUND, RequestError, TransientError


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
