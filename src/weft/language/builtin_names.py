"""The names of the built-in functions: no program may bind them."""

_ARITHMETIC = "+ - * / mod quotient abs min max round floor ceiling sqrt expt"
_COMPARISON = "= != < > <= >= eq? equal? not"
_PREDICATES = "number? integer? string? boolean? list? dict? symbol? function? null? empty?"
_LISTS = """list cons car cdr first rest second third last nth length append reverse range sort member
    contains? take drop flatten zip unique sum any all"""
_FUNCTIONS = "map filter reduce for-each apply"
_STRINGS = """string string-append string-length substring string-upcase string-downcase string-trim
    string-split string-join string-replace string-contains? starts-with? ends-with? string->number
    number->string format"""
_DICTS = "dict get get-in assoc dissoc keys values items merge has-key? json-parse json-string"
_RESULTS = "content status parsed notes failed? log-message error raise identity"

BUILT_IN_NAMES = frozenset(
    " ".join([_ARITHMETIC, _COMPARISON, _PREDICATES, _LISTS, _FUNCTIONS, _STRINGS, _DICTS, _RESULTS]).split()
)
