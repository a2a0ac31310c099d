"""Texts are packed and come back as they were."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from weft.memory.index.database import pack, unpack


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_texts_come_back_as_they_were_in_any_order(texts: list[bytes]) -> None:
    packed = [pack(text) for text in texts]

    assert [unpack(each) for each in reversed(packed)] == texts[::-1]


def test_threads_do_not_mix_their_texts() -> None:
    texts = [str(number).encode() * 50_000 for number in range(4)]
    packed: dict[bytes, list[bytes]] = {}

    def work(text: bytes) -> None:
        packed[text] = [pack(text) for _ in range(20)]

    threads = [threading.Thread(target=work, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(unpack(each) == text for text in texts for each in packed[text])
