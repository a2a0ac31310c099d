"""Numbers within bounds, as grammar expressions."""

import math
from collections.abc import Iterator
from typing import Any

MAX_DIGITS = 15
"""More than these a double cannot tell apart."""

ANY_INTEGER = f'"-"? ("0" | [1-9] [0-9]{{0,{MAX_DIGITS - 1}}})'
ANY_NUMBER = f'{ANY_INTEGER} ("." [0-9]{{1,6}})?'

_LARGEST = 10**MAX_DIGITS - 1
_MAX_GRID = 400


def integer_expression(schema: dict[str, Any]) -> str | None:
    """The integers that a schema's bounds allow; None when there are none."""
    low, is_low_open = _bound(schema, "minimum", "exclusiveMinimum", max)
    high, is_high_open = _bound(schema, "maximum", "exclusiveMaximum", min)
    if low is None and high is None:
        return ANY_INTEGER
    first = -_LARGEST if low is None else math.ceil(low)
    last = _LARGEST if high is None else math.floor(high)
    first += is_low_open and first == low
    last -= is_high_open and last == high
    return _integers(max(first, -_LARGEST), min(last, _LARGEST))


def number_expression(schema: dict[str, Any]) -> str | None:
    """Numbers that a schema's bounds allow, where not all then many of them; None when none was found."""
    low, is_low_open = _bound(schema, "minimum", "exclusiveMinimum", max)
    high, is_high_open = _bound(schema, "maximum", "exclusiveMaximum", min)
    if low is None and high is None:
        return ANY_NUMBER
    low = -_LARGEST if low is None else max(low, -_LARGEST)
    high = _LARGEST if high is None else min(high, _LARGEST)
    parts = [
        *_between_integers(
            math.ceil(low), math.floor(high), low if is_low_open else None, high if is_high_open else None
        )
    ]
    if not parts:
        parts = [*_grid(low, high, is_low_open=is_low_open, is_high_open=is_high_open)]
    return " | ".join(parts) if parts else None


def _bound(schema: dict[str, Any], closed: str, open_: str, choose: Any) -> tuple[float | None, bool]:
    """The tighter one of a bound that may be reached and one that may not, and whether it is the latter."""
    found = [
        (value, name == open_)
        for name in (closed, open_)
        if isinstance(value := schema.get(name), int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
    ]
    if not found:
        return None, False
    tightest = choose(value for value, _ in found)
    return tightest, any(is_open for value, is_open in found if value == tightest)


def _between_integers(first: int, last: int, not_low: float | None, not_high: float | None) -> Iterator[str]:
    """Whole numbers from first to last and what lies between two of them."""
    whole_first = first + (first == not_low)
    whole_last = last - (last == not_high)
    if whole_first <= whole_last and (whole := _integers(whole_first, whole_last)):
        yield f'({whole}) (".0")?'
    if first >= last:
        return
    some = '"." [0-9]{0,5} [1-9]'
    if last > 0 and (above := _naturals(max(first, 0), last - 1)):
        yield f"({above}) {some}"
    if first < 0 and (below := _naturals(max(-last, 0), -first - 1)):
        yield f'"-" ({below}) {some}'


def _grid(low: float, high: float, *, is_low_open: bool, is_high_open: bool) -> Iterator[str]:
    """Decimals with few digits between two bounds that lie between the same two integers."""
    for digits in (1, 2, 3):
        scale = 10**digits
        first, last = math.ceil(low * scale), math.floor(high * scale)
        if last - first > _MAX_GRID:
            return
        texts = [
            f'"{number / scale:.{digits}f}"'
            for number in range(first, last + 1)
            if low <= number / scale <= high
            and not (is_low_open and number / scale == low)
            and not (is_high_open and number / scale == high)
        ]
        if texts:
            yield from texts
            return


def _integers(first: int, last: int) -> str | None:
    if first > last:
        return None
    parts = []
    if last >= 0:
        parts.append(_naturals(max(first, 0), last))
    if first < 0:
        below = _naturals(max(-last, 1), -first)
        parts.append(below and f'"-" ({below})')
    return " | ".join(part for part in parts if part)


def _naturals(first: int, last: int) -> str | None:
    """The digits of every natural number from first to last, without leading zeros."""
    if first > last:
        return None
    parts: list[str] = []
    for length in range(len(str(first)), len(str(last)) + 1):
        least = max(first, 10 ** (length - 1) if length > 1 else 0)
        most = min(last, 10**length - 1)
        parts.append(_same_length(str(least), str(most)))
    return " | ".join(parts)


def _same_length(low: str, high: str) -> str:
    """Every text of digits from low to high, which are equally long."""
    if low == high:
        return f'"{low}"'
    rest = len(low) - 1
    if low[1:] == "0" * rest and high[1:] == "9" * rest:
        return _digits(low[0], high[0], rest)
    if low[0] == high[0]:
        return f'"{low[0]}" ({_same_length(low[1:], high[1:])})'
    parts = [f'"{low[0]}" ({_same_length(low[1:], "9" * rest)})']
    if int(high[0]) - int(low[0]) > 1:
        parts.append(_digits(str(int(low[0]) + 1), str(int(high[0]) - 1), rest))
    parts.append(f'"{high[0]}" ({_same_length("0" * rest, high[1:])})')
    return " | ".join(parts)


def _digits(low: str, high: str, rest: int) -> str:
    """A digit from low to high, and any others after it."""
    return f"[{low}-{high}]" + (f" [0-9]{{{rest}}}" if rest else "")
