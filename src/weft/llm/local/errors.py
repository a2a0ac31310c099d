"""What can go wrong with the files of embedded models."""

from weft.errors import EXIT_NOT_FOUND, RequestError, TransientError, WeftError


class NoSuchEmbeddedModel(RequestError):
    """No embedded model of that name is in the catalogue."""

    code = "no-such-embedded-model"
    exit_code = EXIT_NOT_FOUND


class FetchFailed(TransientError):
    """The packages that hold a model could not be fetched."""

    code = "model-fetch-failed"


class WrongContents(WeftError):
    """What was fetched is not what the catalogue says; it has been deleted."""

    code = "model-wrong-contents"


class CacheUnusable(RequestError):
    """The folder that models are kept in cannot be made or written to."""

    code = "model-cache-unusable"


class NoRoom(RequestError):
    """There is not enough space on the disk for a model."""

    code = "model-no-room"
