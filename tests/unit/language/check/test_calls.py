"""Calls: arity, keywords, types."""

import pytest

from tests.batches import batched
from tests.unit.language.check.checking import messages
from weft.language.ast import Template
from weft.language.library import TaskLibrary, definition_of
from weft.language.sexp import read_program
from weft.language.source import Source

TASK = '(deftask t (a (b "x") (n integer 3)) :instructions "{{a}} {{b}} {{n}}") '

ACCEPTED = [
    "(define (f x) x) (f :x 1)",
    "(define (f x y) x) (f 1 :y 2)",
    "(define (f x) x) (define (f x y) y) (f 1 2)",
    "(define (f x) x) (define (g) (f 1 2)) (define (f x y) y) (g)",
    "(define (f x) x) (define (change) (set! f list)) (change) (f 1 2 3)",
    "(define (f x) x) (if true (begin (define (f) 1)) (begin (define (f) 2))) (f)",
    "(define (call f) (f 1 2 3)) (call list)",
    "(map + (list 1) (list 2))",
    "(map (lambda (x y) x) (list 1) (list 2))",
    "(reduce + 0 (list 1))",
    "(reduce (lambda (so-far x) (+ so-far x)) 0 (list 1))",
    "(sort (list 2 1))",
    "(sort (list 2 1) (lambda (x) (- x)))",
    "(sort (list 2 1) nil)",
    "(any (list true))",
    "(any (lambda (x) x) (list true))",
    "(dict :a 1 :b 2)",
    '(dict "a" 1)',
    '(format "{} {{}} {}" 1 2)',
    "(min (list 1 2))",
    "(cons 1 nil)",
    "(get nil 1)",
    "(apply + 1 (list 2 3))",
    "(apply car (list (list 1 2)))",
    "(let ((x (list 1))) (apply car x))",
    "(let ((list (lambda (x) x))) (apply + (list 1)))",
    "(json-string 'a)",
    '(condition "1 + 1 == 2")',
    '(condition "true || 1 + true == 2")',
    '(deftask shout (f) :instructions "{{f(1)}}") (shout (lambda (x) x))',
    "(template t (f) (sequential (f 1))) (t (lambda (x) x))",
    TASK + '(define path "a.py") (t 1 :files (list path) :context (dict :inherit path) :model path)',
    TASK + "(t 1)",
    TASK + "(t :a 1 :n 4)",
    TASK + '(t 1 :files (list "a.py") :model "local:auto" :context (dict "inherit" "none") :history (dict))',
    TASK + '(task :ref "t" :inputs ((a 1)))',
    TASK + "(map t (list 1 2))",
    TASK + "(content (t 1))",
    '(deftask t (input) :instructions "{{input}}") (let ((x 1)) (task :ref "t" :input-source x))',
    '(get-context :query "x" :limit 1000 :strategy "metadata")',
    '(get-context :query "x" :limit nil :strategy (string-append "con" "tent"))',
    """(iterative-loop :max-iterations 3 :initial 1 :executor (lambda (state n) state)
         :controller (lambda (result checked n) (list 'stop result)))""",
]


@batched("program", ACCEPTED)
def test_right_calls_are_accepted(program: str) -> None:
    assert messages(program) == []


REFUSED = [
    ("(define (f x) x) (f)", "wrong-arity", "f takes 1 argument; it is given 0: 'x' is missing"),
    ("(define (f) 1) (f 1)", "wrong-arity", "f takes no arguments; it is given 1"),
    ("(define (g) (f 1)) (define (f) 1) (g)", "wrong-arity", "f takes no arguments; it is given 1"),
    ("(define (f x) (f x 1)) (f 1)", "wrong-arity", "f takes 1 argument; it is given 2"),
    ("(let ((f (lambda (x) x))) (f 1 2))", "wrong-arity", "f takes 1 argument; it is given 2"),
    ("(define (f x) x) (f 1 :x 2)", "duplicate-name", "f is given 'x' twice"),
    (
        "(define (f code) code) (f :cod 1)",
        "unknown-keyword",
        "f has no parameter 'cod'; did you mean 'code'?",
    ),
    (
        '(define (f x) x) (f 1 :model "local:auto")',
        "unknown-keyword",
        "f has no parameter 'model'; only calls of tasks take :model",
    ),
    ("(define x 1) (x)", "wrong-type", "'x' is a number; only functions and tasks can be called"),
    ('(substring "a")', "wrong-arity", "substring takes 2 to 3 arguments; it is given 1"),
    ("(-)", "wrong-arity", "- takes at least 1 argument; it is given 0"),
    ("(car (list 1) :x 1)", "wrong-arity", "car takes 1 argument; it is given 3"),
    ('(dict "a")', "wrong-arity", "dict takes keys and values in turn; the last key has no value"),
    ('(format "{}")', "wrong-arity", "format has 1 {} for the 0 values it is given"),
    ("(map nth (list 1))", "wrong-arity", "nth takes 2 arguments; it is given 1"),
    ("(define (f) 1) (filter f (list 1))", "wrong-arity", "f takes no arguments; it is given 1"),
    ("(reduce (lambda (x) x) 0 (list 1))", "wrong-arity", "the function takes 1 argument; it is given 2"),
    (
        "(iterative-loop :max-iterations 3 :initial 1 :executor (lambda (s) s) :controller list)",
        "wrong-arity",
        "the function takes 1 argument; it is given 2",
    ),
    (TASK + "(t)", "wrong-arity", "t needs a value for 'a'"),
    (TASK + "(t 1 2 3 4)", "wrong-arity", "t takes 3 arguments; it is given 4"),
    (TASK + "(t 1 :a 2)", "duplicate-name", "t is given 'a' twice"),
    (TASK + '(task :ref "t" :inputs ((aa 1) (a 2)))', "unknown-keyword", "t has no parameter 'aa'"),
    (TASK + '(task :ref "t")', "wrong-arity", "t needs a value for 'a'"),
    ("(t)  " + TASK, "wrong-arity", "t needs a value for 'a'"),
    (TASK + '(t 1 :n "many")', "wrong-type", '\'n\' of t must be integer: "many" is not of type "integer"'),
    (TASK + "(t 1 :n (list 1))", "wrong-type", "'n' of t must be integer: [1] is not of type \"integer\""),
    (TASK + "(let ((x 1)) (t 1 :n (list x)))", "wrong-type", "'n' of t must be integer: this is a list"),
    (TASK + '(t 1 :model "local:other")', "unknown-model", "there is no model 'local:other'"),
    (
        """(deftask f () :instructions "x" :returns "object")
           (deftask g ((x number)) :instructions "{{x}}")
           (g (f))""",
        "wrong-type",
        "'x' of g must be number: f returns object",
    ),
    (
        '(template f () 1) (f :model "local:auto")',
        "bad-value",
        ":model is for single tasks, and the body of f is not a task",
    ),
    ('(deftask t () :instructions "x" :inputs ((given))) (t)', "wrong-arity", "t needs a value for 'given'"),
    ('(string-append "a" 1)', "wrong-type", "string-append takes a string here; the second is a number"),
    ("(length 5)", "wrong-type", "length takes a list, a dict or a string here; the first is a number"),
    ('(+ 1 (string-trim "2"))', "wrong-type", "+ takes a number here; the second is a string"),
    (
        TASK + "(+ 1 (t 1))",
        "wrong-type",
        "+ takes a number here; the second is a task result; (content r) is its text, (parsed r) its value",
    ),
    ("(taskLibrary)", "wrong-type", "'taskLibrary' is the task library; only functions and tasks can be"),
    ("(filter taskLibrary (list 1))", "wrong-type", "filter takes a function here; the first is the task"),
    (
        "(iterative-loop :max-iterations 3 :initial 1 :executor taskLibrary :controller list)",
        "wrong-type",
        ":executor is a function; this is the task library",
    ),
    ("(apply car (list 1 2))", "wrong-arity", "car takes 1 argument; it is given 2"),
    ("(apply (lambda (x) x) 1 '(2))", "wrong-arity", "the function takes 1 argument; it is given 2"),
    (TASK + "(apply t (list))", "wrong-arity", "t needs a value for 'a'"),
    ("(apply + 3)", "wrong-type", "apply takes a list here; the second is a number"),
    ("(apply + (list 1) 3)", "wrong-type", "apply takes a list here; the third is a number"),
    ("(apply 3 (list 1))", "wrong-type", "apply takes a function here; the first is a number"),
    ("(json-string car)", "wrong-type", "json-string takes a JSON value here"),
    ('(condition "1 + true")', "wrong-type", "'+' does not take an int and a bool"),
    (TASK + "(t car)", "wrong-type", "'a' of t is a function, which cannot leave the program"),
    (TASK + "(t (lambda (x) x))", "wrong-type", "'a' of t is a function, which cannot leave the program"),
    (
        "(template ap (f x) (f x)) (ap (lambda (y) y) 1)",
        "wrong-type",
        "'f' of ap is a function, which cannot leave the program",
    ),
    ("(template mk () (lambda (x) x)) (mk)", "wrong-type", "mk returns a function, which cannot leave"),
    ("(sequential car)", "wrong-type", "the output of a step is a function, which cannot leave"),
    ("(sequential :parallel true car 1)", "wrong-type", "the output of a step is a function, which cannot"),
    (
        '(task :instructions "{{f}}" :inputs ((f car)))',
        "wrong-type",
        "the input 'f' is a function, which cannot leave the program",
    ),
    (TASK + '(t 1 :files "a.py")', "wrong-type", ":files must be a list of paths, not a string"),
    (TASK + '(t 1 :files (list "a.py" 2))', "wrong-type", "a path in :files must be a string"),
    (TASK + "(t 1 :model 3)", "wrong-type", ":model must be a string"),
    (TASK + "(t 1 :history (list 3))", "wrong-type", ":history must be a dict with use, turns, record"),
    (
        TASK + "(let ((x 1)) (t 1 :history (list x)))",
        "wrong-type",
        ":history must be a dict with use, turns, record",
    ),
    (
        TASK + '(t 1 :context (dict :inherit "ful"))',
        "bad-value",
        ':context: inherit must be one of "full", "none"',
    ),
    (
        TASK + '(t 1 :context (dict :inherits "full"))',
        "unknown-keyword",
        ":context has no setting 'inherits'",
    ),
    (
        TASK + '(t 1 :context (dict :inherit "full" :fresh "enabled"))',
        "context-conflict",
        'fresh_context "enabled" excludes inherit_context "full"',
    ),
    ("(loop -1 1)", "wrong-type", "the count of a loop is a whole number from 0"),
    ('(with-timeout "soon" 1)', "wrong-type", "with-timeout takes a number of seconds"),
    ('(get-context :query "x" :limit 0)', "wrong-type", ":limit is a whole number from 1 to 1000"),
    ('(get-context :query "x" :limit 1001)', "wrong-type", ":limit is a whole number from 1 to 1000"),
    ('(get-context :query "x" :strategy "guess")', "bad-value", ':strategy is "content" or "metadata", not'),
]


@batched(("program", "code", "message"), REFUSED)
def test_wrong_calls_are_told(program: str, code: str, message: str) -> None:
    found = [line.split(": ", 2)[1:] for line in messages(program)]

    assert [code for code, _ in found] == [code]
    assert found[0][1].startswith(message)


def test_templates_of_the_library_are_known() -> None:
    library = TaskLibrary()
    template = read_program(Source("library", '(deftask t (a) :instructions "{{a}}")')).forms[0]
    assert isinstance(template, Template)
    library.register_task(definition_of(template))

    assert messages("(t 1)", library) == []
    assert messages("(t)", library) == ["example:1:1: wrong-arity: t needs a value for 'a'"]
    assert messages('(deftask t () :instructions "x")', library) == [
        "example:1:1: duplicate-name: the template 't' is defined twice (first at library:1:1)"
    ]


MAKERS = """
(deftask names () :instructions "List names" :output "json" :schema "string[]")
(deftask facts () :instructions "Give facts" :output "json")
(deftask square ((n number)) :instructions "{{n}}")
(deftask join ((items array)) :instructions "{{items}}")
(template passed () (sequential (task :instructions "a") (names)))
(template ever () (if (is-done) (ever) (sequential (ever))))
(define (is-done) true)
"""


@pytest.mark.parametrize(
    "argument",
    [
        "(names)",
        '(task :ref "names")',
        '(task :instructions "x" :output "json" :schema "object")',
        "(passed)",
        '(sequential :parallel true (task :instructions "a"))',
        '(script :argv ("date"))',
        '(director-evaluator-loop :director (names) :evaluator (task :instructions "judge"))',
        '(reduce-task :inputs ((a "1")) :inner (task :instructions "x") :reduction (names))',
    ],
)
def test_an_argument_is_checked_against_the_schema_of_the_task_that_makes_it(argument: str) -> None:
    for program in (
        f"(square {argument})",
        f"(let ((made {argument})) (square made))",
        f"(define made {argument}) (square :n made)",
        f'(task :instructions "x" :inputs ((made {argument}) (n (square {argument}))))',
    ):
        assert [line.split(": ")[1] for line in messages(MAKERS + program)] == ["wrong-type"], program


def test_a_slot_is_checked_against_the_schema_of_the_task_that_fills_it() -> None:
    filled = '(sequential (task :instructions "a" :output "json" :schema "object" :output-slot plan) {})'

    told = "'n' of square must be number: the output format of the task that gives it says object"
    assert messages(MAKERS + filled.format("(square plan)"))[0].endswith(told)
    assert messages(MAKERS + filled.format('(task :ref "square" :inputs ((n plan)))'))[0].endswith(told)
    assert messages(MAKERS + filled.format("(square plan.count)")) == []


@pytest.mark.parametrize(
    "program",
    [
        "(join (names))",
        "(square (facts))",
        '(square (task :instructions "a number"))',
        "(square (length (parsed (names))))",
        "(define made 3) (square made) (define made (names))",
        "(define made (names)) (set! made 3) (square made)",
        "(define made (names)) (define (f) (square made)) (define made 3) (f)",
        "(define made 3) (define (f) (begin (square made) (let ((made (names))) (join made)))) (f)",
        "(square (if (is-done) 3 (names)))",
        "(square (ever))",
        '(template count () (script :argv ("wc")) :returns "number") (square (count))',
    ],
)
def test_an_argument_that_may_fit_is_accepted(program: str) -> None:
    assert messages(MAKERS + program) == []
