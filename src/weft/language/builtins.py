"""Tables of the built-in functions: names, arities, kinds of arguments and results."""

from collections.abc import Mapping

_NAMES_BY_ARITY: dict[tuple[int, int | None], str] = {
    (0, None): "+ * list append string-append merge dict",
    (1, None): "log-message - / min max < > <= >= = != eq? equal? format zip",
    (
        1,
        1,
    ): """abs round floor ceiling sqrt not number? integer? string? boolean? list? dict? symbol? function?
        null? empty? car cdr first rest second third last length reverse flatten unique sum string
        string-length string-upcase string-downcase string-trim string->number number->string keys values
        items json-parse json-string content status parsed notes failed? identity raise""",
    (1, 2): "sort any all string-split string-join error",
    (1, 3): "range",
    (2, 2): """mod quotient expt cons nth member contains? take drop filter string-contains? starts-with?
        ends-with? get-in has-key?""",
    (2, 3): "substring get",
    (2, None): "map for-each apply dissoc",
    (3, 3): "reduce string-replace",
    (3, None): "assoc",
}

BUILT_IN_ARITIES: dict[str, tuple[int, int | None]] = {
    name: arity for arity, names in _NAMES_BY_ARITY.items() for name in names.split()
}
"""The least and the greatest number of arguments; None: no limit."""

BUILT_IN_NAMES = frozenset(BUILT_IN_ARITIES)

TASK_LIBRARY = "taskLibrary"
"""The global name of the task library: a value, not a function."""

RESERVED_NAMES = BUILT_IN_NAMES | {TASK_LIBRARY}
"""Names that a program cannot define; a local name may shadow them."""

SYSTEM_NAMESPACE = "system:"
"""Prefix of the names of weft's own tools."""


def is_reserved(name: str) -> bool:
    """Return whether programs cannot define a name: it is built in, or has the prefix of weft's own tools."""
    return name in RESERVED_NAMES or name.startswith(SYSTEM_NAMESPACE)


_NUMBER = ("a number",)
_STRING = ("a string",)
_LIST = ("a list", "nil")
_DICT = ("a dict", "a task result")
_FUNCTION = ("a function",)
_ANY: tuple[str, ...] = ()
_JSON = ("nil", "a boolean", "a number", "a string", "a symbol", "a list", "a dict", "a task result")

Kinds = tuple[str, ...]

_SIGNATURES: Mapping[str, tuple[Kinds, ...]] = {
    "+ - * / mod quotient abs round floor ceiling sqrt expt number->string": (_NUMBER,),
    "min max": (("a number", "a list"), _NUMBER),
    "range": (_NUMBER, ("a number", "nil")),
    "< > <= >=": (("a number", "a string"),),
    "string-append string-length string-upcase string-downcase string-trim string-replace string->number": (
        _STRING,
    ),
    "string-contains? starts-with? ends-with?": (_STRING,),
    "substring": (_STRING, _NUMBER, ("a number", "nil")),
    "string-split": (_STRING, ("a string", "nil")),
    "string-join": (_LIST, _STRING),
    "format": (_STRING, _ANY),
    "car cdr first rest second third last reverse flatten unique sum append zip": (_LIST,),
    "nth take drop": (_LIST, _NUMBER),
    "cons": (_ANY, _LIST),
    "member": (_ANY, _LIST),
    "length": (("a list", "a dict", "a string", "nil"),),
    "map for-each filter apply": (_FUNCTION, _LIST),
    "reduce": (_FUNCTION, _ANY, _LIST),
    "sort": (_LIST, ("a function", "nil")),
    "keys values items merge": (_DICT,),
    "dissoc has-key?": (_DICT, ("a string", "a symbol")),
    "assoc": (("a dict", "a task result", "nil"), _ANY),
    "empty?": (("a list", "a dict", "a string", "a task result", "nil"),),
    "contains?": (("a list", "a dict", "a string", "nil"), _ANY),
    "get": (("a dict", "a list", "a task result", "nil"), _ANY),
    "get-in": (_ANY, _LIST),
    "json-string": (_JSON,),
    "json-parse": (("a string", "a task result"),),
    "content status parsed notes": (("a task result",),),
}

ARGUMENT_KINDS: dict[str, tuple[Kinds, ...]] = {
    name: kinds for names, kinds in _SIGNATURES.items() for name in names.split()
}
"""Allowed kinds by position; the last entry applies to all further arguments. Empty entry: any kind."""

_RESULTS: Mapping[str, str] = {
    "a number": "+ - * / mod quotient abs round floor ceiling sqrt expt length string-length sum",
    "a string": """string string-append substring string-upcase string-downcase string-trim string-join
        string-replace number->string format json-string""",
    "a boolean": """= != eq? equal? < > <= >= not number? integer? string? boolean? list? dict? symbol?
        function? null? empty? contains? string-contains? starts-with? ends-with? has-key? any all""",
    "a list": """list cons cdr rest append reverse range sort take drop flatten zip unique map filter keys
        values items string-split""",
    "a dict": "dict assoc dissoc merge",
    "nil": "for-each",
}

RESULT_KINDS: dict[str, str] = {name: kind for kind, names in _RESULTS.items() for name in names.split()}
"""The kind of result of each built-in that always returns the same kind."""

FUNCTION_ARGUMENTS: dict[str, tuple[int, int]] = {
    "filter": (0, 1),
    "any": (0, 1),
    "all": (0, 1),
    "reduce": (0, 2),
    "sort": (1, 1),
}
"""Position of the argument that is a function, and the number of arguments that it is called with.

`map`, `for-each` and `apply` are not listed: how many arguments they pass depends on the call."""
