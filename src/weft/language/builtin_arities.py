"""How many arguments each built-in takes: at least, and at most (None: any number)."""

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
