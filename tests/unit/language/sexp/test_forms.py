"""Data to tree: every form, and what is wrong with a form that is not written as it should be."""

from tests.batches import batched
from tests.unit.language.sexp.reading import messages, problems, read, read_one
from weft.language.ast import (
    And,
    Apply,
    Assign,
    Begin,
    Clause,
    Cond,
    Condition,
    Define,
    FunctionCall,
    GetContext,
    If,
    IterativeLoop,
    Lambda,
    Let,
    Literal,
    Loop,
    Node,
    Or,
    Parallel,
    Quote,
    Symbol,
    Text,
    Try,
    Variable,
    WithBudget,
    WithTimeout,
)


def name(text: str) -> Variable:
    return Variable(name=text)


def number(value: int) -> Literal:
    return Literal(value=value)


A, B, C, ONE, TWO = name("a"), name("b"), name("c"), number(1), number(2)


@batched(
    ("text", "node"),
    [
        ("(quote a)", Quote(datum=Symbol("a"))),
        ("(if a b)", If(test=A, then=B)),
        ("(if a b c)", If(test=A, then=B, otherwise=C)),
        ("(cond)", Cond(clauses=())),
        (
            "(cond (a) (b 1 2) (else c))",
            Cond(clauses=(Clause(A, None), Clause(B, Begin(items=(ONE, TWO)))), otherwise=C),
        ),
        ("(cond (|else| 1))", Cond(clauses=(Clause(name("else"), ONE),))),
        ("(and)", And(items=())),
        ("(or a b)", Or(items=(A, B))),
        ("(let ((a 1) (b 2)) a)", Let(bindings=(("a", ONE), ("b", TWO)), body=A)),
        ("(let () 1 2)", Let(bindings=(), body=Begin(items=(ONE, TWO)))),
        ("(let* ((a 1) (a a)) a)", Let(bindings=(("a", ONE), ("a", A)), body=A, is_sequential=True)),
        ("(define a 1)", Define(name="a", value=ONE)),
        ("(bind a 1)", Define(name="a", value=ONE, gives_value=True)),
        ("(define (a b) b)", Define(name="a", value=Lambda(parameters=("b",), body=B, name="a"))),
        ("(define a (lambda () 1))", Define(name="a", value=Lambda(parameters=(), body=ONE))),
        ("(set! a 1)", Assign(name="a", value=ONE)),
        ("(lambda (a b) a b)", Lambda(parameters=("a", "b"), body=Begin(items=(A, B)))),
        ("(lambda () (begin a))", Lambda(parameters=(), body=Begin(items=(A,)))),
        ("(begin)", Begin(items=())),
        ("(progn (define a 1) a)", Begin(items=(Define(name="a", value=ONE), A))),
        ("(a)", FunctionCall(func_name="a")),
        ("(a 1 :b c 2)", FunctionCall(func_name="a", args=(ONE, TWO), keywords=(("b", C),))),
        ("(|if| a)", FunctionCall(func_name="if", args=(A,))),
        ("(fs:read.text a)", FunctionCall(func_name="fs:read.text", args=(A,))),
        ("((lambda () 1))", Apply(function=Lambda(parameters=(), body=ONE))),
        (
            "(a.f 1 :b 2)",
            Apply(function=Variable(name="a", path=("f",)), args=(ONE,), keywords=(("b", TWO),)),
        ),
        ("(try a (catch e 1 e))", Try(body=A, name="e", handler=Begin(items=(ONE, name("e"))))),
        ("(loop 2 a)", Loop(count=TWO, body=A)),
        (
            "(iterative-loop :max-iterations 2 :initial 1 :executor a :controller c)",
            IterativeLoop(max_iterations=TWO, initial=ONE, executor=A, validator=None, controller=C),
        ),
        ("(parallel a b)", Parallel(items=(A, B))),
        ("(with-timeout 1 a)", WithTimeout(seconds=ONE, body=A)),
        ("(with-budget (:steps 1 :cost 2) a)", WithBudget(limits=(("steps", ONE), ("cost", TWO)), body=A)),
        ("(get-context :query a :previous b)", GetContext(keywords=(("query", A), ("previous", B)))),
        ('(condition "output.errors > 0")', Condition(text="output.errors > 0")),
        ('(fill "x {{a}}")', Text(raw="x {{a}}", parts=("x ", A))),
        ('"x {{a}}"', Literal(value="x {{a}}")),
    ],
)
def test_forms(text: str, node: Node) -> None:
    assert read(text) == (node,)


SHAPES = {
    "(if)": "`if` is written (if test then) or (if test then otherwise)",
    "(if 1 2 3 4)": "`if` is written",
    "(quote)": "`quote` is written (quote datum)",
    "(let (a 1) a)": "`let` is written (let ((name value) ...) body...)",
    "(let ((a 1)))": "`let` is written (let ((name value) ...) body...)",
    "(let* a b)": "`let*` is written (let* ((name value) ...) body...)",
    "(define a)": "`define` is written (define name e) or (define (name parameter...) body...)",
    "(define () 1)": "`define` is written",
    "(define 1 2)": "`define` is written",
    "(define a 1 2)": "`define` is written",
    "(set! a)": "`set!` is written (set! name e)",
    "(lambda a a)": "`lambda` is written (lambda (parameter...) body...)",
    "(lambda (1) a)": "`lambda` is written",
    "(cond a)": "`cond` is written (cond (test e...) ... (else e...))",
    "(cond (else))": "`cond` is written",
    "(cond (else 1) (a 2))": "`else` must be the last clause",
    "(try a)": "`try` is written (try e (catch name e...))",
    "(try a (finally e 1))": "`try` is written",
    "(loop 3)": "`loop` is written (loop count e)",
    "(with-timeout 1)": "`with-timeout` is written (with-timeout seconds e...)",
    "(with-budget () a)": "`with-budget` is written (with-budget (:steps n",
    "(get-context 1)": "`get-context` is written",
    "(condition)": '`condition` is written (condition "output.errors > 0")',
    "(condition a)": "a condition is a string",
    "(fill a)": "the text of `fill` is a string",
    "(task-cond)": '`task-cond` is written (task-cond :criteria "..." ("condition" e...) ...)',
    "(task-cond (a 1))": "`task-cond` is written",
    "(deftask)": '`deftask` is written (deftask name (parameter...) :instructions "..." ...)',
    "(template a ())": '`template` is written (template name (parameter...) :returns "..." body...)',
    "(1 2)": "a list of values is written (list 1 2)",
    "(:a 2)": "a call begins with a name",
    "(define a.b 1)": "`a.b` is a path, and a path cannot be bound; |a.b| is one name",
    "(f :a)": "`:a` has no value after it",
    "(f :a :b 1)": "`:a` has no value after it",
    "(if :a 1)": "`:a` is the name of an argument, but a value is expected here",
    "(f (define a 1))": "`define` is only allowed at the top level or directly in a body",
    "(if a (deftask b () :instructions 'x'))": "`deftask` is only allowed at the top level",
    "(iterative-loop :initial 1 :executor a)": "`iterative-loop` needs :max-iterations :controller",
    "(get-context :quer a)": "`get-context` has no `:quer`; did you mean 'query'?",
    "(with-budget (:zzz 1) a)": "`with-budget` has no `:zzz`; it has :steps :calls :tokens :cost",
}


@batched(("text", "part"), SHAPES.items())
def test_a_form_that_is_written_wrong_is_told_how_it_is_written(text: str, part: str) -> None:
    assert part in messages(text)


@batched(
    ("text", "expected"),
    [
        ("(define map 1)", [(1, 9, "reserved-name")]),
        ("(define (if x) x)", [(1, 10, "reserved-name")]),
        ("(let ((loop 1)) 1)", [(1, 8, "reserved-name")]),
        ("(lambda (if) 1)", [(1, 10, "reserved-name")]),
        ("(set! if 1)", [(1, 7, "reserved-name")]),
        ("(define system:x 1)", [(1, 9, "reserved-name")]),
        ("(try a (catch try 1))", [(1, 15, "reserved-name")]),
        ('(deftask map () :instructions "x")', [(1, 10, "reserved-name")]),
        ("(template a (quote) 1)", [(1, 14, "reserved-name")]),
        ("(let ((a 1) (a 2)) a)", [(1, 13, "duplicate-name")]),
        ("(lambda (a b a) a)", [(1, 14, "duplicate-name")]),
        ("(template a (b (b 1)) 1)", [(1, 16, "duplicate-name")]),
        ("(f :a 1 :a 2)", [(1, 9, "duplicate-name")]),
        ('(fill "{{a")', [(1, 8, "syntax-error")]),
        ('\n(condition "a >")', [(2, 16, "syntax-error")]),
    ],
)
def test_mistakes_and_their_places(text: str, expected: list[tuple[int, int, str]]) -> None:
    assert problems(text) == expected


def test_all_mistakes_of_a_program_are_found_in_one_reading() -> None:
    text = "(define (f cond)\n  (if)\n  (let ((a (loop 1))) (condition a)))\n(task 1)\n(f :a 1 :a 2)"
    assert problems(text) == [
        (1, 12, "reserved-name"),
        (2, 3, "syntax-error"),
        (3, 12, "syntax-error"),
        (3, 34, "bad-value"),
        (4, 7, "syntax-error"),
        (5, 9, "duplicate-name"),
    ]


def test_names_of_special_forms_can_be_used_as_values() -> None:
    assert read_one("loop") == name("loop")
