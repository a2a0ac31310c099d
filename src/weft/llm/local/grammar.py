"""Converts a JSON Schema to a grammar that constrains the output of a model.

weft does not use the runtime's own converter, because schemas are untrusted: here the grammar that reaches
native code is limited in size, depth and number of alternatives. Keywords that a grammar cannot express
(`not`, `pattern`, `multipleOf` ...) are ignored; the evaluator checks the response against the whole schema.
"""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from math import comb
from typing import Any

from weft.llm.local.grammar_schemas import equality_key, is_plain_enum, merged, types_of, unusable, values_of

MAX_DIGITS = 15
"""Most digits of an integer that a double always represents exactly."""

ANY_INTEGER = f'"-"? ("0" | [1-9] [0-9]{{0,{MAX_DIGITS - 1}}})'
ANY_NUMBER = f'{ANY_INTEGER} ("." [0-9]{{1,6}})?'

_LARGEST_INTEGER = 10**MAX_DIGITS - 1
_MAX_DECIMALS = 400


def integer_expression(schema: dict[str, Any]) -> str | None:
    """Return the expression of the integers within a schema's bounds; None if there are no such integers."""
    low, is_low_open = _bound(schema, "minimum", "exclusiveMinimum", max)
    high, is_high_open = _bound(schema, "maximum", "exclusiveMaximum", min)
    if low is None and high is None:
        return ANY_INTEGER
    first = -_LARGEST_INTEGER if low is None else math.ceil(low)
    last = _LARGEST_INTEGER if high is None else math.floor(high)
    first += is_low_open and first == low
    last -= is_high_open and last == high
    return _integers(max(first, -_LARGEST_INTEGER), min(last, _LARGEST_INTEGER))


def number_expression(schema: dict[str, Any]) -> str | None:
    """Return the expression of numbers within a schema's bounds, all or many; None if no number is found."""
    low, is_low_open = _bound(schema, "minimum", "exclusiveMinimum", max)
    high, is_high_open = _bound(schema, "maximum", "exclusiveMaximum", min)
    if low is None and high is None:
        return ANY_NUMBER
    low = -_LARGEST_INTEGER if low is None else max(low, -_LARGEST_INTEGER)
    high = _LARGEST_INTEGER if high is None else min(high, _LARGEST_INTEGER)
    excluded = {low} if is_low_open else set()
    excluded |= {high} if is_high_open else set()
    parts = list(_between_integers(math.ceil(low), math.floor(high), excluded))
    return " | ".join(parts or _decimals(low, high, excluded)) or None


def _bound(schema: dict[str, Any], closed: str, open_: str, choose: Any) -> tuple[float | None, bool]:
    """Return the tighter of the inclusive and the exclusive bound, and whether it is exclusive."""
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


def _between_integers(first: int, last: int, excluded: set[float]) -> Iterator[str]:
    """Yield expressions of the integers from `first` to `last` and of the decimals between them."""
    whole_first = first + (first in excluded)
    whole_last = last - (last in excluded)
    if whole_first <= whole_last and (whole := _integers(whole_first, whole_last)):
        yield f'({whole}) (".0")?'
    if first >= last:
        return
    fraction = '"." [0-9]{0,5} [1-9]'
    if last > 0 and (above := _naturals(max(first, 0), last - 1)):
        yield f"({above}) {fraction}"
    if first < 0 and (below := _naturals(max(-last, 0), -first - 1)):
        yield f'"-" ({below}) {fraction}'


def _decimals(low: float, high: float, excluded: set[float]) -> Iterator[str]:
    """Yield the decimals between two bounds without an integer between them, with at most three digits."""
    for digits in (1, 2, 3):
        scale = 10**digits
        first, last = math.ceil(low * scale), math.floor(high * scale)
        if last - first > _MAX_DECIMALS:
            return
        texts = [
            f'"{number / scale:.{digits}f}"'
            for number in range(first, last + 1)
            if low <= number / scale <= high and number / scale not in excluded
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
    """Return the expression of the natural numbers from `first` to `last`, without leading zeros."""
    if first > last:
        return None
    parts: list[str] = []
    for length in range(len(str(first)), len(str(last)) + 1):
        least = max(first, 10 ** (length - 1) if length > 1 else 0)
        most = min(last, 10**length - 1)
        parts.append(_same_length(str(least), str(most)))
    return " | ".join(parts)


def _same_length(low: str, high: str) -> str:
    """Return the expression of the digit strings from `low` to `high`, which have the same length."""
    if low == high:
        return f'"{low}"'
    remaining = len(low) - 1
    if low[1:] == "0" * remaining and high[1:] == "9" * remaining:
        return _digits(low[0], high[0], remaining)
    if low[0] == high[0]:
        return f'"{low[0]}" ({_same_length(low[1:], high[1:])})'
    parts = [f'"{low[0]}" ({_same_length(low[1:], "9" * remaining)})']
    if int(high[0]) - int(low[0]) > 1:
        parts.append(_digits(str(int(low[0]) + 1), str(int(high[0]) - 1), remaining))
    parts.append(f'"{high[0]}" ({_same_length("0" * remaining, high[1:])})')
    return " | ".join(parts)


def _digits(low: str, high: str, count: int) -> str:
    """Return the expression of a digit from `low` to `high` followed by `count` arbitrary digits."""
    return f"[{low}-{high}]" + (f" [0-9]{{{count}}}" if count else "")


MAX_DEPTH = 40
MAX_RULES = 3_000
MAX_CHARACTERS = 400_000
MAX_PARTS = 20_000
"""Most parts of a schema that are visited; a part that is referenced repeatedly counts each time."""
MAX_WAYS = 600
"""Most alternatives with which a value may begin: the runtime follows all of them in parallel."""
MAX_STRING = 1_500
"""Default `maxLength`: small models do not always stop."""
MAX_ITEMS = 50
"""Default `maxItems` and `maxProperties`."""
MAX_SETS = 200
"""Most sets of used values in an array with `uniqueItems`, each of which needs a rule. With more, only the
evaluator's check rejects duplicates."""
MAX_REPETITION = 1_900
"""Most repetitions in a rule: just below the runtime's limit."""

_ANY_JSON_DEPTH = 3
"""Most levels of nesting in JSON of any shape."""

_ESCAPED = r'"\\\x00-\x1F\x7F'
"""Characters, in a character set, that must be escaped in a JSON string."""

_FORMATS = {
    "date": '[12] [0-9]{3} "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | "1" [0-9] | "2" [0-8])',
    "time": '("0" [0-9] | "1" [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] "Z"',
    "uuid": '[0-9a-f]{8} "-" [0-9a-f]{4} "-4" [0-9a-f]{3} "-" [89ab] [0-9a-f]{3} "-" [0-9a-f]{12}',
}
_FORMATS["date-time"] = f'{_FORMATS["date"]} "T" {_FORMATS["time"]}'
_CONDITIONS = frozenset(
    {"properties", "required", "additionalProperties", "anyOf", "oneOf", "allOf", "enum", "const"}
    | {"items", "prefixItems", "minItems", "maxItems", "minLength", "maxLength"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
)
"""Keywords beside a `$ref` that restrict its values further."""


def grammar_of(schema: dict[str, Any] | bool) -> str:
    """Return the grammar of the JSON texts that match a schema, in GBNF notation; raise ModelError."""
    builder = _Builder(schema)
    try:
        builder.rules["root"] = builder.value(schema, 0)
    except RecursionError:  # depth is limited, but the caller's stack may be deep already
        raise unusable("it is nested too deeply") from None
    return builder.text()


def literal(text: str) -> str:
    """Quote a text as a terminal of the grammar."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


class _Builder:
    """Collects the rules of one grammar."""

    def __init__(self, root: dict[str, Any] | bool) -> None:
        self._root = root
        self.rules: dict[str, str] = {}
        self._ways: dict[str, int] = {}
        """Number of alternatives with which a value of each rule may begin."""
        self._named: dict[str, str] = {}
        """Names of rules by their body, and by `$ref POINTER` for the rules of references."""
        self._size = 0
        self._parts = 0
        self._open: set[str] = set()
        """References being resolved that have no text yet: to meet one again means endless recursion."""

    def text(self) -> str:
        """Return the whole grammar."""
        return "\n".join(f"{name} ::= {body}" for name, body in self.rules.items()) + "\n"

    def value(self, schema: Any, depth: int) -> str:
        """Return the name of the rule for values that match a schema."""
        if depth > MAX_DEPTH:
            raise unusable(f"it is nested more than {MAX_DEPTH} levels deep")
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise unusable("it is too large")
        if schema is False:
            raise unusable("it contains a schema `false`, which no value matches")
        if schema is True or not isinstance(schema, dict) or not schema:
            return self._any_json(0)
        if isinstance(schema.get("$ref"), str):
            return self._reference(schema, depth)
        if isinstance(parts := schema.get("allOf"), list):
            others = {name: value for name, value in schema.items() if name != "allOf"}
            for part in parts:
                others = merged(others, self._resolved(part))
            return self.value(others or True, depth + 1)
        for name in ("anyOf", "oneOf"):
            if isinstance(branches := schema.get(name), list) and branches:
                others = {key: value for key, value in schema.items() if key != name}
                return self._any_of(
                    [merged(others, self._resolved(branch) if others else branch) for branch in branches],
                    depth,
                )
        return self._plain(schema, depth)

    def _plain(self, schema: dict[str, Any], depth: int) -> str:
        """Return the rule of a schema without `$ref`, `allOf`, `anyOf` and `oneOf`."""
        if "const" in schema:
            return self._one_of([schema["const"]])
        types = types_of(schema)
        if isinstance(schema.get("enum"), list):
            return self._one_of(values_of(schema))
        if types is None:
            return self._any_json(0)
        if len(types) > 1:
            return self._any_of([{**schema, "type": name} for name in types], depth)
        return self._typed(types[0], schema, depth)

    def _typed(self, name: str, schema: dict[str, Any], depth: int) -> str:
        match name:
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "string":
                return self._string(schema)
            case "boolean":
                return self._rule('"true" | "false"', 1)
            case "null":
                return self._rule('"null"', 1)
        expression = integer_expression(schema) if name == "integer" else number_expression(schema)
        if expression is None:
            raise unusable("its bounds allow no number")
        return self._rule(expression, 1)

    def _rule(self, body: str, ways: int, name: str | None = None) -> str:
        """Return the name of the rule with this body, adding the rule if it is new."""
        known = self._named.get(body)
        if known is not None and name is None:
            return known
        if ways > MAX_WAYS:
            raise unusable(f"a value has more than {MAX_WAYS} alternatives")
        self._size += len(body)
        if len(self.rules) >= MAX_RULES or self._size > MAX_CHARACTERS:
            raise unusable("it is too large")
        if name is None:
            name = f"r{len(self.rules)}"
            self._named[body] = name
        self.rules[name] = body
        self._ways[name] = ways
        return name

    def _any_of(self, branches: Sequence[Any], depth: int) -> str:
        names = [self.value(branch, depth + 1) for branch in branches if branch is not False]
        if not names:
            raise unusable("none of its alternatives can be satisfied")
        names = list(dict.fromkeys(names))
        return self._rule(" | ".join(names), sum(self._ways.get(name, 1) for name in names))

    def _one_of(self, values: Sequence[Any]) -> str:
        texts = dict.fromkeys(json.dumps(value, ensure_ascii=False) for value in values)
        return self._rule(" | ".join(literal(text) for text in texts), len(texts))

    def _reference(self, schema: dict[str, Any], depth: int) -> str:
        """Return the rule of a reference. It gets its name first, so that recursive schemas terminate."""
        if schema.keys() & _CONDITIONS:
            others = {name: value for name, value in schema.items() if name != "$ref"}
            return self.value(merged(others, self._resolved(schema)), depth + 1)
        pointer: str = schema["$ref"]
        key = f"$ref {pointer}"
        if key in self._open:
            raise unusable(f"the reference {pointer[:80]!r} refers to itself")
        if key in self._named:
            return self._named[key]
        name = self._named[key] = f"ref{sum(known.startswith('$ref ') for known in self._named)}"
        self.rules[name] = ""  # reserves its position
        self._open.add(key)
        target = self.value(self._target(pointer), depth + 1)
        self._open.discard(key)
        return self._rule(target, self._ways.get(target, 1), name)

    def _resolved(self, schema: Any) -> Any:
        """Return a schema with its reference, and those to which it leads, merged into it."""
        for _ in range(MAX_DEPTH):
            if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
                return schema
            others = {name: value for name, value in schema.items() if name != "$ref"}
            schema = merged(others, self._target(schema["$ref"]))
        raise unusable("its references form a cycle")

    def _target(self, pointer: str) -> Any:
        if not pointer.startswith("#"):
            raise unusable(f"it refers to {pointer[:80]!r}, which is outside the schema")
        found: Any = self._root
        for step in pointer[1:].split("/")[1:]:
            part = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and part.isdigit() and int(part) < len(found):
                found = found[int(part)]
            elif isinstance(found, dict) and part in found:
                found = found[part]
            else:
                raise unusable(f"it refers to {pointer[:80]!r}, which does not exist")
        return found

    def _string(self, schema: dict[str, Any]) -> str:
        name = schema.get("format")
        if isinstance(name, str) and name in _FORMATS:
            return self._rule(f'"\\"" {_FORMATS[name]} "\\""', 1)
        low, high = _counts(schema, "minLength", "maxLength", MAX_STRING)
        return self._rule(f'"\\"" {self._character()}{_repetition(low, high)} "\\""', 1)

    def _character(self) -> str:
        # No control characters and no \u, so that every string can be stored and shown.
        return self._rule(rf'[^{_ESCAPED}] | "\\" ["\\/bfnrt]', 1, "character")

    def _array(self, schema: dict[str, Any], depth: int) -> str:
        first = schema.get("prefixItems")
        items = schema.get("items", True)
        if isinstance(items, list):
            first, items = items, schema.get("additionalItems", True)
        low, high = _counts(schema, "minItems", "maxItems", MAX_ITEMS)
        if isinstance(first, list) and first:
            names = [self._inner(item, depth) for item in first[: max(high, 1)]]
            return self._rule(f'"[" {self._chain([(name, True) for name in names])} "]"', 1)
        if high == 0 or items is False:
            return self._rule('"[]"', 1)
        if schema.get("uniqueItems") is True and isinstance(items, dict) and is_plain_enum(items):
            return self._unique(values_of(items), low, high)
        return self._repeated(self._inner(items, depth), low, high, "[]")

    def _unique(self, values: list[Any], low: int, high: int) -> str:
        """Return the rule of arrays without duplicates; each set of used values has a rule of its own."""
        values = list({equality_key(value): value for value in values}.values())
        if low > len(values):
            raise unusable("its `minItems` exceeds the number of possible unique items")
        high = min(high, len(values))
        if sum(comb(len(values), count) for count in range(high + 1)) > MAX_SETS:
            return self._repeated(self._one_of(values), low, high, "[]")
        texts = [self._one_of([value]) for value in values]
        rules: dict[frozenset[int], str] = {}

        def next_items(used: frozenset[int]) -> str:
            if used not in rules:
                comma = '"," " "? ' if used else ""
                free = [index for index in range(len(texts)) if index not in used and len(used) < high]
                ways = [f"{comma}{texts[index]} {next_items(used | {index})}" for index in free]
                if len(used) >= low:
                    ways.append('""')
                rules[used] = self._rule(" | ".join(ways), len(ways))
            return rules[used]

        return self._rule(f'"[" {next_items(frozenset())} "]"', 1)

    def _repeated(self, item: str, low: int, high: int, brackets: str) -> str:
        """Return the rule of `low` to `high` items in brackets, separated by commas."""
        # The runtime copies the repeated expression `high` times, so it is a single rule name.
        more = self._rule(f'"," " "? {item}', 1)
        body = f"{item} {more}{_repetition(max(low - 1, 0), high - 1)}"
        return self._rule(f'"{brackets[0]}" ({body}){"" if low else "?"} "{brackets[1]}"', 1)

    def _inner(self, schema: Any, depth: int) -> str:
        """Return the rule of a nested value, where a recursive reference is allowed."""
        outer, self._open = self._open, set()
        name = self.value(schema, depth + 1)
        self._open = outer
        return name

    def _object(self, schema: dict[str, Any], depth: int) -> str:
        required = [name for name in schema.get("required") or () if isinstance(name, str)]
        properties = schema.get("properties")
        members = dict(properties) if isinstance(properties, dict) else {}
        additional = schema.get("additionalProperties", True)
        for name in required:
            members.setdefault(name, additional)
        if not members:
            return self._open_object(schema, additional, depth)
        parts = []
        for name, member in members.items():
            if member is False and name not in required:
                continue
            key = literal(json.dumps(name, ensure_ascii=False) + ":")
            parts.append((f'{key} " "? {self._inner(member, depth)}', name in required))
        # Only if the schema asks for them: small models add members without end.
        if "additionalProperties" in schema and additional is not False:
            parts.append((self._additional(additional, members, depth), False))
        return self._rule(f'"{{" {self._chain(parts)} "}}"', 1)

    def _additional(self, value: Any, taken: Iterable[str], depth: int) -> str:
        """Return the rule of members with other names than `taken`, for `additionalProperties`."""
        member = self._rule(f'"\\"" {self._others(["", *taken])} "\\":" " "? {self._inner(value, depth)}', 1)
        more = self._rule(f'"," " "? {member}', 1)
        return self._rule(f"{member} {more}{_repetition(0, MAX_ITEMS - 1)}", 1)

    def _others(self, taken: Sequence[str]) -> str:
        """Return the rule of names that are not in `taken`, without characters that JSON escapes."""
        continued: dict[str, list[str]] = {}
        for text in taken:
            if text[:1].isprintable() and text[:1] not in ('"', "\\", ""):
                continued.setdefault(text[0], []).append(text[1:])
        first = "".join(f"\\x{ord(one):02X}" if one.isascii() else one for one in continued)
        ways = [f"[^{_ESCAPED}{first}] [^{_ESCAPED}]{{0,59}}"]
        ways += [f"{literal(one)} {self._others(tails)}" for one, tails in continued.items()]
        if "" not in taken:
            ways.append('""')
        return self._rule(" | ".join(ways), len(ways))

    def _open_object(self, schema: dict[str, Any], value: Any, depth: int) -> str:
        low, high = _counts(schema, "minProperties", "maxProperties", MAX_ITEMS)
        if high == 0 or value is False:
            return self._rule('"{}"', 1)
        return self._repeated(self._member(self._inner(value, depth)), low, high, "{}")

    def _member(self, value: str) -> str:
        """Return the rule of an object's member with any name and a value of the rule `value`."""
        return self._rule(f'"\\"" {self._character()}{{1,60}} "\\":" " "? {value}', 1)

    def _chain(self, parts: Sequence[tuple[str, bool]]) -> str:
        """Return the rule of the parts in order, separated by commas; optional parts may be missing."""
        # The rules of the remaining parts, if a part precedes them and if no part does.
        after, first = '""', '""'
        for part, is_required in reversed(parts):
            alone = part if after == '""' else f"{part} {after}"
            first = self._rule(alone if is_required else f"{alone} | {first}", 1)
            more = f'"," " "? {part}' if is_required else f'("," " "? {part})?'
            after = self._rule(more if after == '""' else f"{more} {after}", 1)
        return first

    def _any_json(self, level: int) -> str:
        """Return the rule of JSON of any shape, nested at most `_ANY_JSON_DEPTH` levels deep."""
        scalar = self._rule(
            f'{self._string({})} | {self._rule(ANY_NUMBER, 1)} | "true" | "false" | "null"', 5
        )
        if level >= _ANY_JSON_DEPTH:
            return scalar
        inner = self._any_json(level + 1)
        members = self._repeated(self._member(inner), 0, 20, "{}")
        items = self._repeated(inner, 0, 20, "[]")
        return self._rule(f"{members} | {items} | {scalar}", 7)


def _counts(schema: dict[str, Any], least: str, most: str, default: int) -> tuple[int, int]:
    """Return the minimum and maximum count, limited to MAX_REPETITION."""
    low, high = schema.get(least), schema.get(most)
    low = min(low, MAX_REPETITION) if isinstance(low, int) and low > 0 else 0
    high = min(high, MAX_REPETITION) if isinstance(high, int) and high >= 0 else max(default, low)
    if low > high:
        raise unusable(f"its `{least}` exceeds its `{most}`")
    return low, high


def _repetition(low: int, high: int) -> str:
    return f"{{{low},{high}}}"
