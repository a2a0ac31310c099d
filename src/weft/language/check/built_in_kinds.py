"""The kinds of values that built-ins take and give, as far as they insist on them."""

from collections.abc import Mapping

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
"""By position; the last one goes for all that follow. Empty: any kind."""

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
"""What calls of these give, whatever they are given."""

FUNCTION_ARGUMENTS: dict[str, tuple[int, int]] = {
    "filter": (0, 1),
    "any": (0, 1),
    "all": (0, 1),
    "reduce": (0, 2),
    "sort": (1, 1),
}
"""Which argument is a function, and with how many it is called; `map` and `for-each`: one for each list."""
