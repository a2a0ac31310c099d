"""Secrets that are spelled byte by byte: `73 6b 2d`, `\\x73\\x6b`, `%73%6B`, `&#115;&#107;`, dumps of files.

What stands between the bytes is not known before, so these are no forms that could be looked for: runs of
spelled bytes are read, and what they say is looked at.
"""

import re
from collections.abc import Callable, Iterator, Mapping

_DIGIT = "[0-9A-Fa-f]"
_ASCII = f"[2-7]{_DIGIT}"
"""A byte of the letters, digits and signs that secrets are made of."""

LIKELY = (
    f"(?:%(?:25)*{_ASCII}){{5}}",
    rf"(?:\\+[uU]0{{2,6}}{_ASCII}){{5}}",
    rf"(?:\\+x{_ASCII}){{5}}",
    rf"(?:&(?:amp;)?#[xX]?{_DIGIT}{{2,4}};){{5}}",
    f"(?:0x{_ASCII}[, ]{{1,2}}){{5}}",
    f"(?:{_ASCII} {{1,2}}){{5}}",
    f"(?:{_ASCII}:){{5}}",
    f"(?:{_ASCII}-){{5}}",
    f"(?:{_ASCII}, ?){{5}}",
    f"(?:{_ASCII}){{2}} (?:{_ASCII}){{2}} ",
    f" (?:{_ASCII}){{4}} ",
    " [01][0-7]{5} [01][0-7]{5} ",
    "(?: [0-3][0-7]{2}){5}",
    "(?: {3}[!-~]){5}",
)
"""Patterns one of which is found in every text that spells a secret."""

_PREFIX = r"%(?:25)*|\\{1,8}+x|\\{1,8}+[uU]0{2,6}|0x|&(?:amp;)?\#[xX]"
_TOKEN = rf"(?:(?:{_PREFIX})?{_DIGIT}{{2}}|&(?:amp;)?\#[0-9]{{2,3}}(?=;));?+"
_BETWEEN = r"""(?:[\s:,;_'"-]|\\[rn]){0,6}+"""
_TOKENS = re.compile(_TOKEN)
_RUN = re.compile(f"(?:{_TOKEN}{_BETWEEN}){{5,}}")
_DECIMAL = re.compile(r"&(?:amp;)?#([0-9]{2,3})")
_LINE_ENDS = re.compile(r"((?:\r|\n|\\r|\\n)+)")
_OFFSET = re.compile(rf"\s*(?:(?:{_DIGIT}{{8}}|{_DIGIT}{{6,7}}):?\s)?\s*")

BYTES_IN_A_LINE = 16
"""What programs that dump files put on a line; what follows is text."""


def without_spelled(text: str, marks: Mapping[str, str]) -> str:
    """The text with marks in the place of values that are spelled out in it."""
    values = {value.encode("utf-8", "surrogatepass"): mark for value, mark in marks.items()}
    return _without_dumped(_without_runs(text, values), values)


def _without_runs(text: str, values: Mapping[bytes, str]) -> str:
    def replaced(run: re.Match[str]) -> str:
        tokens = list(_TOKENS.finditer(run[0]))
        said = bytes(_byte(token[0]) for token in tokens)
        shown, end = "", 0
        for first, last, mark in _found(said, values):
            shown += run[0][end : tokens[first].start()] + mark
            end = tokens[last - 1].end()
        return shown + run[0][end:]

    return _RUN.sub(replaced, text)


def _byte(token: str) -> int:
    decimal = _DECIMAL.match(token)
    return min(255, int(decimal[1])) if decimal else int(token.rstrip(";")[-2:], 16)


def _found(said: bytes, values: Mapping[bytes, str]) -> list[tuple[int, int, str]]:
    """Where values are, from the first to the last; of those that overlap the first."""
    found = []
    for value, mark in values.items():
        start = said.find(value)
        while start >= 0:
            found.append((start, start + len(value), mark))
            start = said.find(value, start + len(value))
    kept: list[tuple[int, int, str]] = []
    for one in sorted(found):
        if not kept or one[0] >= kept[-1][1]:
            kept.append(one)
    return kept


def _without_dumped(text: str, values: Mapping[bytes, str]) -> str:
    """The text without the lines of a dump that hold a value: they tell it in numbers, and in letters."""
    pieces = _LINE_ENDS.split(text)  # lines at even places, what ends them at odd ones
    heads = [_OFFSET.match(line) for line in pieces[::2]]
    rows = [line[head.end() :].split() if head else [] for line, head in zip(pieces[::2], heads, strict=True)]
    for read in _READERS:
        for number, mark in _dumped_lines(map(read, rows), values):
            head = heads[number]
            pieces[2 * number] = (head[0] if head else "") + mark
    return "".join(pieces)


def _dumped_lines(rows: Iterator[bytes], values: Mapping[bytes, str]) -> Iterator[tuple[int, str]]:
    """The numbers of lines that hold a part of a value, and its mark."""
    said, lines = bytearray(), list[int]()
    for number, row in enumerate(rows):
        said += row or b"\0"  # a line that says nothing is between two dumps
        lines += [number] * (len(row) or 1)
    for value, mark in values.items():
        start = said.find(value)
        while start >= 0:
            for number in dict.fromkeys(lines[start : start + len(value)]):
                yield number, mark
            start = said.find(value, start + 1)


def _reader(
    word: str, read: Callable[[str], bytes], most: int = BYTES_IN_A_LINE
) -> Callable[[list[str]], bytes]:
    is_word = re.compile(word).fullmatch

    def row(words: list[str]) -> bytes:
        said = b""
        for one in words:
            if len(said) >= most or not is_word(one):
                break
            said += read(one)
        return said

    return row


def _octal_word(word: str) -> bytes:
    return int(word, 8).to_bytes(2, "little")


_READERS = (
    _reader(f"(?:{_DIGIT}{{2}}){{1,16}}", bytes.fromhex),
    _reader(f"(?:{_DIGIT}{{2}}){{1,16}}", bytes.fromhex, most=256),
    _reader(f"{_DIGIT}{{4}}", lambda word: bytes.fromhex(word)[::-1]),
    _reader("[01][0-7]{5}", _octal_word),
    _reader("[0-3][0-7]{2}", lambda word: bytes([int(word, 8)])),
    _reader("[!-~]", str.encode),
)
"""Pairs and groups (`xxd`, `hexdump -C`), words of the machine (`od -x`), octal (`od`, `od -b`), `od -c`."""
