"""The table of built-in functions, from which the check, the evaluator and the documentation derive.

A new built-in is a row here, and its implementation in `weft.evaluator.builtins`.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

_KINDS: dict[str, tuple[str, ...]] = {
    "any": (),
    "number": ("a number",),
    "integer": ("a number",),
    "string": ("a string",),
    "symbol": ("a symbol",),
    "list": ("a list",),
    "items": ("a list", "nil"),
    "dict": ("a dict",),
    "fields": ("a dict", "a task result"),
    "result": ("a task result",),
    "function": ("a function",),
    "nil": ("nil",),
    "json": ("nil", "a boolean", "a number", "a string", "a symbol", "a list", "a dict", "a task result"),
}
"""Words of the table for arguments, with the kinds of values that they allow; empty: any kind.

`items` is a list, and nil as the empty one; `fields` a dict, or the fields of a task result.
"""


class Argument(Struct, frozen=True, gc=False):
    """An argument of a built-in."""

    words: tuple[str, ...]
    """Words of `_KINDS`; the argument has the kind of one of them."""
    calls_with: int | None = None
    """For a function: how many arguments it is called with, if that is certain."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the allowed kinds; empty: any."""
        return tuple(dict.fromkeys(kind for word in self.words for kind in _KINDS[word]))

    def describe(self, *, is_plural: bool = False) -> str:
        """Return the words for a message, such as "a list, a dict or a string", without nil."""
        kinds = {"integer": ("an integer",), "json": ("a JSON value",)}.get(self.words[0], self.kinds)
        found = [kind for kind in kinds if kind != "nil" and (kind != "a task result" or len(kinds) == 1)]
        if is_plural:
            found = [f"{kind.partition(' ')[2]}s" for kind in found]
        return " or ".join([", ".join(found[:-1]), found[-1]]) if len(found) > 1 else found[0]


class Signature(Struct, frozen=True, gc=False):
    """How a built-in is called."""

    name: str
    usage: str
    doc: str
    group: str
    arguments: tuple[Argument, ...]
    least: int
    most: int | None
    """The greatest number of arguments; None: no limit."""
    repeated: int | None
    """The position of the argument that may be given any number of times, or None."""
    result: str | None
    """The kind of the result, if it is always the same."""

    def accepts(self, count: int) -> bool:
        """Return whether the built-in can be called with `count` arguments."""
        return self.least <= count and (self.most is None or count <= self.most)

    def expand(self, count: int) -> Sequence[Argument]:
        """Return the arguments of a call with `count` arguments, the repeated one as often as needed."""
        if self.repeated is None:
            return self.arguments[:count]
        before, after = self.arguments[: self.repeated], self.arguments[self.repeated + 1 :]
        times = count - len(before) - len(after)
        return [*before, *[self.arguments[self.repeated]] * times, *after][:count]

    def describe(self, position: int, count: int) -> str:
        """Return what the argument must be, for a message; plural if several arguments must be the same."""
        arguments = self.expand(count)
        argument = arguments[position]
        is_repeated = self.repeated is not None and argument == self.arguments[self.repeated]
        is_plural = len(argument.words) == 1 and (is_repeated or arguments.count(argument) > 1)
        return argument.describe(is_plural=is_plural)


Row = tuple[str, str, str, str]
"""Usage, arguments, result, documentation.

An argument is a word of `_KINDS`, or several with `/` between them. `?` after it: it may be left out.
`...`: it may be given any number of times, also never. `:n`: it is called with n arguments.
"""

# fmt: off
_TABLE: dict[str, tuple[Row, ...]] = {
    "arithmetic": (
        ("(+ n ...)", "number...", "number", "Return the sum; 0 without arguments."),
        ("(- n ...)", "number number...", "number", "Subtract the other numbers from the first; negate one."),
        ("(* n ...)", "number...", "number", "Return the product; 1 without arguments."),
        ("(/ n ...)", "number number...", "number", "Divide the first by the others; invert a single one."),
        ("(mod a b)", "number number", "number", "Return a modulo b, with the sign of b."),
        ("(quotient a b)", "number number", "number", "Return the integer quotient, rounded towards zero."),
        ("(abs n)", "number", "number", "Return the absolute value."),
        ("(min n ...) or (min list)", "number/list number...", "any", "Return the smallest number."),
        ("(max n ...) or (max list)", "number/list number...", "any", "Return the largest number."),
        ("(round n)", "number", "number", "Return the nearest integer; halves go to the even one."),
        ("(floor n)", "number", "number", "Return the largest integer that is not greater than n."),
        ("(ceiling n)", "number", "number", "Return the smallest integer that is not less than n."),
        ("(sqrt n)", "number", "number", "Return the square root, as an integer if exact."),
        ("(expt a b)", "number number", "number", "Return a to the power of b."),
    ),
    "comparison, logic": (
        ("(= a b ...)", "any any...", "boolean", "Return whether all are equal: lists and dicts by content."),
        ("(eq? a b ...)", "any any...", "boolean", "Return whether all are equal, as = does."),
        ("(equal? a b ...)", "any any...", "boolean", "Return whether all are equal, as = does."),
        ("(!= a b ...)", "any any...", "boolean", "Return whether not all are equal."),
        ("(< a b ...)", "number/string number/string...", "boolean",
         "Return whether each is less than the next."),
        ("(> a b ...)", "number/string number/string...", "boolean",
         "Return whether each is greater than the next."),
        ("(<= a b ...)", "number/string number/string...", "boolean",
         "Return whether none is greater than the next."),
        ("(>= a b ...)", "number/string number/string...", "boolean",
         "Return whether none is less than the next."),
        ("(not x)", "any", "boolean", 'Return whether x is false: false, nil, 0, "", () or the empty dict.'),
    ),
    "types": (
        ("(number? x)", "any", "boolean", "Return whether x is a number."),
        ("(integer? x)", "any", "boolean",
         "Return whether x is a number without a fraction, such as 2 or 2.0."),
        ("(string? x)", "any", "boolean", "Return whether x is a string."),
        ("(boolean? x)", "any", "boolean", "Return whether x is true or false."),
        ("(list? x)", "any", "boolean", "Return whether x is a list."),
        ("(dict? x)", "any", "boolean", "Return whether x is a dict."),
        ("(symbol? x)", "any", "boolean", "Return whether x is a quoted name."),
        ("(function? x)", "any", "boolean", "Return whether x can be called: a closure, a built-in, a task."),
        ("(null? x)", "any", "boolean", "Return whether x is nil or the empty list."),
        ("(empty? x)", "list/dict/string/result/nil", "boolean",
         "Return whether a list, dict or string is empty; nil is."),
    ),
    "lists": (
        ("(list x ...)", "any...", "list", "Create a list of the values."),
        ("(cons x list)", "any items", "list", "Return the list with x added at the front."),
        ("(car list)", "items", "any", "Return the first element; fail on an empty list."),
        ("(cdr list)", "items", "list", "Return the list without its first element; fail on an empty list."),
        ("(first list)", "items", "any", "Return the first element, or nil."),
        ("(rest list)", "items", "list",
         "Return the list without its first element; empty for an empty list."),
        ("(second list)", "items", "any", "Return the second element, or nil."),
        ("(third list)", "items", "any", "Return the third element, or nil."),
        ("(last list)", "items", "any", "Return the last element, or nil."),
        ("(nth list n)", "items integer", "any", "Return element n, counted from 0, or nil."),
        ("(length x)", "list/dict/string/nil", "number",
         "Return the number of elements, or of characters of a string."),
        ("(append list ...)", "items...", "list", "Concatenate the lists."),
        ("(reverse list)", "items", "list", "Return the list in reverse order."),
        ("(range n), (range from to) or (range from to step)", "number number/nil? number/nil?", "list",
         "Return the integers before the end."),
        ("(sort list) or (sort list f)", "items function/nil:1?", "list",
         "Sort numbers or strings in ascending order; with f, by its results."),
        ("(member x list)", "any items", "any",
         "Return the list from the first element that equals x, or false."),
        ("(contains? xs x)", "list/dict/string/nil any", "boolean",
         "Return whether a list has the element, a dict the key, a string the part."),
        ("(take list n)", "items integer", "list", "Return the first n elements."),
        ("(drop list n)", "items integer", "list", "Return the list without its first n elements."),
        ("(flatten list)", "items", "list", "Return the elements of the list and of all nested lists."),
        ("(zip list ...)", "items items...", "list",
         "Return lists of all first elements, all second ones ..., up to the shortest list."),
        ("(unique list)", "items", "list", "Return each element once, in order."),
        ("(sum list)", "items", "number", "Return the sum of the numbers in the list."),
        ("(any f list) or (any list)", "any:1 any?", "boolean",
         "Return whether f is true for an element, or whether an element is true."),
        ("(all f list) or (all list)", "any:1 any?", "boolean",
         "Return whether f is true for every element, or every element is true."),
    ),
    "functions over lists": (
        ("(map f list ...)", "function items items...", "list",
         "Return the results of f for each element; of several lists, f gets one element each."),
        ("(filter f list)", "function:1 items", "list",
         "Return the elements for which f returns a true value."),
        ("(reduce f init list)", "function:2 any items", "any",
         "Fold the list from the left: (f (f init first) second) ..."),
        ("(for-each f list ...)", "function items items...", "nil", "Call f for each element; return nil."),
        ("(apply f x ... list)", "function any... items", "any",
         "Call f with the values and the elements of the list."),
    ),
    "strings": (
        ("(string x)", "any", "string",
         "Return x as text: a string itself, the content of a task result, else JSON."),
        ("(string-append s ...)", "string...", "string", "Concatenate the strings."),
        ("(string-length s)", "string", "number", "Return the number of characters."),
        ("(substring s from to)", "string integer integer/nil?", "string",
         "Return the characters from one position up to another, or to the end."),
        ("(string-upcase s)", "string", "string", "Convert to upper case."),
        ("(string-downcase s)", "string", "string", "Convert to lower case."),
        ("(string-trim s)", "string", "string", "Remove white space at both ends."),
        ("(string-split s sep)", "string string/nil?", "list",
         "Split at the separator, or into words without one."),
        ("(string-join list sep)", "items string?", "string",
         "Join the elements as text, with the separator between them."),
        ("(string-replace s old new)", "string string string", "string", "Replace every `old` by `new`."),
        ("(string-contains? s part)", "string string", "boolean",
         "Return whether the string contains the part."),
        ("(starts-with? s part)", "string string", "boolean",
         "Return whether the string begins with the part."),
        ("(ends-with? s part)", "string string", "boolean", "Return whether the string ends with the part."),
        ("(string->number s)", "string", "any", "Parse a number, or return nil."),
        ("(number->string n)", "number", "string", "Return the number as text."),
        ("(format s x ...)", "string any...", "string",
         "Replace each {} by the next value; {{ and }} are literal braces."),
    ),
    "dicts, JSON": (
        ('(dict :key x ...) or (dict "key" x ...)', "any...", "dict", "Create a dict."),
        ("(get d key default)", "dict/list/result/nil any any?", "any",
         "Return a value, an element or a field of a task result; else the default."),
        ("(get-in d (list key ...))", "any items", "any", "Return the part at the end of the path, or nil."),
        ("(assoc d key x ...)", "fields/nil any any any...", "dict",
         "Return a dict with these values added."),
        ("(dissoc d key ...)", "fields string/symbol string/symbol...", "dict",
         "Return a dict without these keys."),
        ("(keys d)", "fields", "list", "Return the keys, in order."),
        ("(values d)", "fields", "list", "Return the values, in order."),
        ("(items d)", "fields", "list", "Return a list of (key value)."),
        ("(merge d ...)", "fields...", "dict", "Merge the dicts; the last value of a key counts."),
        ("(has-key? d key)", "fields string/symbol", "boolean", "Return whether the dict has the key."),
        ("(json-parse s)", "string/result", "any", "Parse a JSON text, or the content of a task result."),
        ("(json-string x)", "json", "string", "Return the JSON text of a value."),
    ),
    "task results": (
        ("(content r)", "result", "any", "Return the text of a task result."),
        ("(status r)", "result", "any", "Return COMPLETE, CONTINUATION or FAILED."),
        ("(parsed r)", "result", "any", "Return the parsed content of a task result, or nil."),
        ("(notes r)", "result", "any", "Return the notes of a task result, a dict."),
        ("(failed? x)", "any", "any", "Return whether x is a failed task result."),
    ),
    "other": (
        ("(log-message x ...)", "any any...", "any",
         "Log the values as text, separated by spaces; return nil."),
        ("(error message details)", "any any?", "any", "Fail; `catch` finds both in the notes."),
        ("(raise x)", "any", "any", "Fail with a failed task result, or with x as the message."),
        ("(identity x)", "any", "any", "Return x."),
    ),
}
# fmt: on


def _signatures() -> Iterator[tuple[str, Signature]]:
    for group, rows in _TABLE.items():
        for usage, written, result, doc in rows:
            name = usage[1:].partition(" ")[0].rstrip(")")
            words = written.split()
            least = sum(not word.endswith(("?", "...")) for word in words)
            repeated = next((n for n, word in enumerate(words) if word.endswith("...")), None)
            most = None if repeated is not None else len(words)
            arguments = tuple(_argument(word.rstrip("?.")) for word in words)
            kind = None if result == "any" else (_KINDS.get(result) or (f"a {result}",))[0]
            yield name, Signature(name, usage, doc, group, arguments, least, most, repeated, kind)


def _argument(word: str) -> Argument:
    words, _, count = word.partition(":")
    return Argument(tuple(words.split("/")), int(count) if count else None)


SIGNATURES: dict[str, Signature] = dict(_signatures())
"""All built-ins by name."""

BUILT_IN_NAMES = frozenset(SIGNATURES)

TASK_LIBRARY = "taskLibrary"
"""The global name of the task library: a value, not a function."""

RESERVED_NAMES = BUILT_IN_NAMES | {TASK_LIBRARY}
"""Names that a program cannot define; a local name may shadow them."""

SYSTEM_NAMESPACE = "system:"
"""Prefix of the names of weft's own tools."""


def is_reserved(name: str) -> bool:
    """Return whether programs cannot define a name: it is built in, or has the prefix of weft's own tools."""
    return name in RESERVED_NAMES or name.startswith(SYSTEM_NAMESPACE)


_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")


def argument_text(position: int) -> str:
    """Return the words for an argument, counted from 0: `the second`, `argument 7`."""
    return f"the {_ORDINALS[position]}" if position < len(_ORDINALS) else f"argument {position + 1}"


def count_text(least: int, most: int | None) -> str:
    """Format an arity: `2 arguments`, `at least 1 argument`, `1 to 3 arguments`, `no arguments`."""
    if most is None:
        wanted = f"at least {least}"
    elif least == most:
        wanted = str(least) if least else "no"
    else:
        wanted = f"{least} to {most}"
    return f"{wanted} argument{'' if wanted in ('1', 'at least 1') else 's'}"
