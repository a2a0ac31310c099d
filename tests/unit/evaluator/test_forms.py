"""Forms: tail calls, depth, places of errors, what stays. Their values: tests/conformance/language."""

import pytest

from tests.batches import batched
from tests.evaluation import MemoryOnly, an_evaluator, outcome_of, value_of
from weft.errors import InternalError
from weft.evaluator.conversion import error_json_for_model
from weft.evaluator.errors import ProgramError, TaskFailed
from weft.evaluator.forms.error_locations import expression_of
from weft.evaluator.functions import Closure
from weft.evaluator.results import TaskFailure, TaskResult
from weft.language.ast import Atomic, If, Literal, Node, Program, Template, Text, Variable
from weft.language.diagnostics import InvalidProgram
from weft.language.sexp import read_program
from weft.language.source import Source, Span

ROUNDS = (
    "(iterative-loop :max-iterations 5 :initial 1 :executor (lambda (s n) {})"
    " :validator (lambda (r n) {}) :controller (lambda (r v n) (list {} r)))"
)


def program(text: str) -> Program:
    return read_program(Source("<test>", text))


@pytest.mark.parametrize(
    "body",
    [
        "(if (= n 0) 0 (f (- n 1)))",
        "(cond ((= n 0) 0) (else (f (- n 1))))",
        "(cond ((= n 0) 0) (true (f (- n 1))))",
        "(or (and (= n 0) 0) (= n 0) (f (- n 1)))",
        "(and true (if (= n 0) 0 (f (- n 1))))",
        "(let ((m (- n 1))) (if (< m 0) 0 (f m)))",
        "(let* ((m (- n 1)) (k m)) (if (< k 0) 0 (f k)))",
        "(begin 1 (if (= n 0) 0 (f (- n 1))))",
        "(if (= n 0) 0 ((lambda (m) (f m)) (- n 1)))",
        "(if (= n 0) 0 (g n))",
        "(if (= n 0) 0 (f :n (- n 1)))",
    ],
)  # fmt: skip
async def test_a_call_in_tail_position_takes_no_stack(body: str) -> None:
    text = f"(define (f n) {body}) (define (g n) (f (- n 1))) (f 100000)"

    assert await value_of(text) in (0, True)


async def test_the_handler_of_a_try_is_in_tail_position() -> None:
    text = "(define (f n) (if (= n 0) 0 (try (car ()) (catch e (f (- n 1)))))) (f 8000)"

    assert await value_of(text) == 0


@pytest.mark.parametrize(
    "body",
    [
        "(+ 1 (f (- n 1)))",
        "(let ((m (f (- n 1)))) (+ m 1))",
        "(begin (define m (f (- n 1))) (+ m 1))",
        "(cond ((f (- n 1)) (+ 1 (- n 1))) (else n))",
        "(+ 1 0 0 0 (f (- n 1)))",
    ],
)
async def test_three_thousand_levels_of_other_calls_work(body: str) -> None:
    assert await value_of(f"(define (f n) (if (= n 0) 0 {body})) (f 3000)") == 3000


@pytest.mark.parametrize(
    "body",
    [
        "(+ 1 (f n))",
        "(map f (list n))",
        "(map (lambda (a b) (f a)) (list n) (list n))",
        "(filter f (list n))",
        "(sort (list n n) f)",
        "(+ 1 (apply f (list n)))",
        "(reduce (lambda (a b) (+ 1 (f b))) 0 (list n))",
        "(parallel (f n))",
        '(begin (try (f n) (catch e (error "again"))) 1)',
        "(begin (loop 1 (f n)) 1)",
        "(with-timeout 9 (f n))",
        "(with-budget (:calls 9) (f n))",
        "(dict :a (f n))",
        "(let ((m (f n))) m)",
        "((f n) 1)",
        '(list (get-context :query "q") (f n))',
        '(map (lambda (m) (list (get-context :query "q") (f m))) (list n))',
    ],
)  # fmt: skip
async def test_recursion_without_end_is_an_error_at_a_limit(body: str) -> None:
    assert await outcome_of(f"(define (f n) {body}) (f 1)") in ("error: depth-exhausted", "error: raised")


@batched(
    ("text", "place", "message"),
    [
        ("(list 1\n  (car ()))", "<test>:2:3", "car of an empty list"),
        ('(define (f x) (+ x 1))\n(f "a")', "<test>:1:15", "+ takes numbers; the first is a string"),
        ("(define lenght 1)\n(lenth (list))", "<test>:2:1", "'lenth' is not bound; did you mean 'length'?"),
        ('(map (lambda (x)\n (- x)) (list "a"))', "<test>:2:2", "- takes numbers; the first is a string"),
        ("(define (f) (g))\n(define (g) (h))\n(f)", "<test>:2:13", "'h' is not bound"),
        ("(let ((d (dict :name 1)))\n d.nam)", "<test>:2:2", "d has no field 'nam'; did you mean 'name'?"),
        ("(define d (list 1)) d[3]", "<test>:1:21", "d does not have an element 3"),
        ('(substring "abc" 2 1)', "<test>:1:1", "substring 2 to 1 of a string of 3 characters"),
        ('(< 1 "a")', "<test>:1:1", "< takes numbers; the second is a string"),
        ('(< "a" 1)', "<test>:1:1", "< takes strings; the second is a number"),
        ("((lambda (a b) a) 1)", "<test>:1:1", "the function takes 2 arguments; it was given 1"),
        ("(define (f) 1) (f 2)", "<test>:1:16", "f takes no arguments; it was given 1"),
        ("(cons 1)", "<test>:1:1", "cons takes 2 arguments; it was given 1"),
        ("(get (dict))", "<test>:1:1", "get takes 2 to 3 arguments; it was given 1"),
        ("(nth (list 1) 1.5)", "<test>:1:1", "nth takes an integer; the second is a number"),
        ("(with-budget (:cost (- 1)) 2)", "<test>:1:1", "the budget :cost is a number from 0; this is -1"),
        ('(condition "nothing > 1")', "<test>:1:12", "name 'nothing' is not bound"),
    ],
)  # fmt: skip
async def test_an_error_has_a_place_and_says_what_is_wrong(text: str, place: str, message: str) -> None:
    with pytest.raises(ProgramError) as raised:
        await value_of(text)

    assert (str(raised.value.span), raised.value.problem.message) == (place, message)
    assert raised.value.problems()[0]["line"] == raised.value.span.line
    assert raised.value.__cause__ is None


async def test_an_error_tells_the_expression_that_failed() -> None:
    with pytest.raises(ProgramError) as raised:
        await value_of("(define xs ())\n(+ 1 (car xs))")

    error = raised.value.error
    assert isinstance(error, TaskFailure)
    assert error.reason == "input_validation_failure"
    assert error.details == {
        "code": "bad-value", "failing_expression": "(car xs)", "place": "<test>:2:6",
        "s_expression_environment": {"xs": []},
    }  # fmt: skip


async def test_an_error_of_a_deep_program_has_no_traceback_of_thousands_of_lines() -> None:
    with pytest.raises(TaskFailed) as raised:
        await value_of("(define (f n) (if (= n 0) (car ()) (+ 1 (f (- n 1))))) (f 3000)")

    assert len(raised.traceback) < 20


async def test_what_one_program_defines_the_next_can_use() -> None:
    evaluator = an_evaluator()
    await evaluator.evaluate(program("(define (twice x) (* 2 x))"))
    await evaluator.evaluate(program("(define y (twice 4))"))

    assert await evaluator.evaluate(program("(+ x y)"), {"x": 1}) == 9


async def test_what_was_defined_before_an_error_stays() -> None:
    evaluator = an_evaluator()
    with pytest.raises(ProgramError):
        await evaluator.evaluate(program("(define x 5) (car ())"))

    assert await evaluator.evaluate(program("x")) == 5


async def test_a_program_that_is_refused_runs_nothing() -> None:
    effects = MemoryOnly()
    with pytest.raises(InvalidProgram, match="reserved-name"):
        await value_of('(get-context :query "q") (define map 1)', effects=effects)

    assert effects.began == []


async def test_a_binding_may_have_the_name_of_a_built_in_which_calls_still_mean() -> None:
    assert await value_of(
        "(list content (string-length content) (list 1))", {"content": "abc", "list": 1}
    ) == [
        "abc",
        3,
        [1],
    ]


async def test_a_binding_cannot_take_the_place_of_the_library() -> None:
    with pytest.raises(InvalidProgram, match="reserved-name"):
        await value_of("1", {"taskLibrary": 1})


def a_template(name: str, body: Node | None = None) -> Template:
    return Template(name=name, parameters=(), body=body or Atomic())


async def test_templates_are_registered_and_are_values() -> None:
    evaluator = an_evaluator()
    forms = (Variable(name="review"), a_template("review"))

    await evaluator.evaluate(Program(forms=forms))

    assert evaluator.library.get_task("review").type == "atomic"
    assert await evaluator.evaluate(program("(function? review)")) is True
    assert await evaluator.evaluate(program("(string review)")) == "#<task review>"


async def test_templates_are_registered_all_or_none() -> None:
    evaluator = an_evaluator()
    with pytest.raises(InvalidProgram, match="the template 'a' is defined twice"):
        await evaluator.evaluate(Program(forms=(a_template("a"), a_template("b"), a_template("a"))))
    with pytest.raises(InvalidProgram, match="reserved-name"):
        await evaluator.evaluate(Program(forms=(a_template("a"), a_template("car"))))

    assert len(evaluator.library) == 0


async def test_a_local_name_comes_before_a_template() -> None:
    evaluator = an_evaluator()
    await evaluator.evaluate(Program(forms=(a_template("review"),)))

    assert await evaluator.evaluate(program("(let ((review (lambda (x) (* 2 x)))) (review 4))")) == 8


async def test_fields_of_a_task_result_come_before_those_of_its_parsed_content() -> None:
    result = TaskResult(content="text", status="COMPLETE", parsed_content={"status": "x", "score": 7})
    text = '(list r.status r.score (get r "score") (get-in r \'(parsedContent status)) (string r) (parsed r))'

    assert await value_of(text, {"r": result}) == [
        "COMPLETE", 7, 7, "x", "text", {"status": "x", "score": 7},
    ]  # fmt: skip
    assert await value_of('(condition "r.score > 5 && r.status == \\"COMPLETE\\"")', {"r": result}) is True


async def test_a_text_is_filled_in_one_pass() -> None:
    text = Text(raw="", parts=("a ", Variable(name="x"), " b ", Variable(name="y")))

    value = await an_evaluator().evaluate(Program(forms=(text,)), {"x": "{{y}}", "y": [1, None]})

    assert value == "a {{y}} b [1, null]"


async def test_a_bug_of_an_effect_is_not_the_program_s_mistake() -> None:
    with pytest.raises(InternalError, match="a bug of the effect"):
        await value_of('(try (map (lambda (n) (get-context :query "bug")) (list 1)) (catch e 1))')


async def test_a_tree_too_deep_to_compile_is_refused() -> None:
    node: Node = Literal(value=1)
    for _ in range(50_000):
        node = If(test=Literal(value=True), then=node)

    with pytest.raises(InvalidProgram, match="program-too-deep"):
        await an_evaluator().evaluate(Program(forms=(node,)))


async def test_a_function_is_a_value_that_stays() -> None:
    function = await value_of("(define (f x) x) f")

    assert isinstance(function, Closure)
    assert repr(function) == "#<function f>"


async def test_a_message_reaches_the_effects() -> None:
    effects = MemoryOnly()
    await value_of('(log-message "a") (log-message (list 1))', effects=effects)

    assert effects.messages == ["a", "[1]"]


async def test_a_node_that_is_only_a_place_is_told_by_its_source() -> None:
    source = Source("<test>", "(a\n  (b c) d)")

    assert expression_of(Node(span=Span(source, 2, 3))) == "(b c) d)"
    assert expression_of(Literal(value="x" * 500)) == '"' + "x" * 199 + "..."


@pytest.mark.parametrize(
    ("text", "round_", "part"),
    [
        ('(define n 0) (loop 3 (begin (set! n (+ n 1)) (if (= n 2) (error "no") n)))', 2, None),
        ("(define n 0) (loop 2 (begin (set! n (+ n 1)) (loop 3 (if (= n 2) (car 1) n))))", 1, None),
        (ROUNDS.format('(if (= n 2) (error "no") s)', "r", "'continue"), 2, "executor"),
        (ROUNDS.format("s", "(if (= n 3) (car 1) r)", "'continue"), 3, "validator"),
        (ROUNDS.format("s", "r", "'perhaps"), 1, "controller"),
    ],
)
async def test_an_error_in_a_loop_says_the_round_and_the_part(
    text: str, round_: int, part: str | None
) -> None:
    with pytest.raises(TaskFailed) as raised:
        await value_of(text)

    assert isinstance(raised.value.error, TaskFailure)
    details = raised.value.error.details or {}
    assert (details["round"], details.get("part")) == (round_, part)


async def environment(text: str) -> object:
    with pytest.raises(TaskFailed) as raised:
        await value_of(text)
    assert isinstance(raised.value.error, TaskFailure)
    return (raised.value.error.details or {})["s_expression_environment"]


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("(define n 0) (define m 1) (/ 1 n)", {"n": 0}),
        ("(let ((x 1) (y 2)) (let ((x 3)) (car x)))", {"x": 3, "y": 2}),
        ("(define (f xs) (car xs)) (f (list))", {"xs": []}),
        ("(let ((f car) (n 1)) (+ n nope))", {"n": 1}),
        ('(let ((d (dict :a "b")) (n (range 11))) (+ d 1))', {"d": {"a": "b"}, "n": "a list of 11 items"}),
        ("(let ((n (expt 10 1000))) (car n))", {"n": "a number"}),
        ('(loop 2 (let ((n 7)) (error "no")))', {"n": 7}),
        ("(let ((kind 'oak) (pair '(ash 1))) (car kind))", {"kind": "oak", "pair": ["ash", 1]}),
    ],
)
async def test_an_error_says_what_was_bound_where_it_happened(text: str, bound: object) -> None:
    assert await environment(text) == bound


@pytest.mark.parametrize("value", ["'oak", "'(oak)", "(dict :kind 'oak)"])
async def test_an_error_where_a_symbol_is_bound_can_be_caught(value: str) -> None:
    assert await value_of(f'(let ((bound {value})) (try (error "no") (catch e (status e))))') == "FAILED"


async def test_an_error_shows_a_bounded_part_of_what_was_bound() -> None:
    names = " ".join(f"(n{number} {number})" for number in range(30))
    found = await environment(f'(let ({names} (long "{"x" * 5000}")) (car long))')

    assert isinstance(found, dict)
    assert len(found) == 20
    assert len(found["long"]) < 1000


async def test_a_model_is_not_told_what_was_bound() -> None:
    with pytest.raises(TaskFailed) as raised:
        await value_of("(let ((x 1)) (car x))")

    assert "s_expression_environment" not in error_json_for_model(raised.value.error)["details"]
