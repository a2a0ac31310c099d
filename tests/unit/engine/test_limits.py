"""Which errors are waited out."""

import pytest

from weft.engine.limits import StoreTolerance
from weft.store.errors import StoreBusy, StoreFull


def test_an_error_that_may_pass_is_logged_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    with StoreTolerance("progress"):
        raise StoreBusy("another process writes")

    assert "progress: another process writes" in caplog.text


@pytest.mark.parametrize("error", [StoreFull("full"), ValueError("no")])
def test_other_errors_are_raised(error: Exception) -> None:
    with pytest.raises(type(error)), StoreTolerance("progress"):
        raise error
