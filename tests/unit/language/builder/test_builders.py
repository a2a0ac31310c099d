"""A program that is built in Python is the tree that its S-expressions read to."""

from typing import Any

import pytest

from tests.batches import batched
from weft import build as b
from weft.language.ast import Literal, Program
from weft.language.diagnostics import InvalidProgram
from weft.language.sexp import print_node, read_program
from weft.language.source import Source

SAME: list[tuple[Any, str]] = [
    (b.node(None), "nil"),
    (b.node(1.5), "1.5"),
    (b.node("a"), '"a"'),
    (b.node([1, b.var("x")]), "(list 1 x)"),
    (b.node({"a": 1, "b c": [True]}), "(dict :a 1 :|b c| (list true))"),
    (b.node(b.symbol("a")), "'a"),
    (b.var("x"), "x"),
    (b.var("system:read_files"), "system:read_files"),
    (b.var("answer.items[0]"), "answer.items[0]"),
    (b.text("Hello {{name}}"), '(fill "Hello {{name}}")'),
    (b.quote([b.symbol("a"), [1, "s"]]), '\'(a (1 "s"))'),
    (b.if_(True, 1), "(if true 1)"),
    (b.if_(True, 1, None), "(if true 1 nil)"),
    (b.cond((b.var("a"), 1, 2), (b.var("b"),), otherwise=3), "(cond (a 1 2) (b) (else 3))"),
    (b.cond((b.var("a"), 1)), "(cond (a 1))"),
    (b.and_(1, 2), "(and 1 2)"),
    (b.or_(), "(or)"),
    (b.condition("output.errors > 0"), '(condition "output.errors > 0")'),
    (b.let({"a": 1, "c": 2}, b.var("a")), "(let ((a 1) (c 2)) a)"),
    (b.let_star({"a": 1}, 2, 3), "(let* ((a 1)) 2 3)"),
    (b.let_star([("a", 1), ("a", 2)], b.var("a")), "(let* ((a 1) (a 2)) a)"),
    (b.define("a", 1), "(define a 1)"),
    (b.define("f", b.lambda_(["x"], b.var("x"))), "(define (f x) x)"),
    (b.set_("a", 1), "(set! a 1)"),
    (b.set_(b.var("a"), 1), "(set! a 1)"),
    (b.lambda_([], 1, 2), "(lambda () 1 2)"),
    (b.begin(), "(begin)"),
    (b.begin(1, 2), "(begin 1 2)"),
    (b.call("+", 1, b.call("f", k=2)), "(+ 1 (f :k 2))"),
    (b.apply(b.lambda_(["x"], 1), 2, k=3), "((lambda (x) 1) 2 :k 3)"),
    (b.list_(1, 2), "(list 1 2)"),
    (b.dict_(a=1), "(dict :a 1)"),
    (b.map_(b.var("f"), [1]), "(map f (list 1))"),
    (b.filter_(b.var("f"), b.var("xs")), "(filter f xs)"),
    (b.reduce_(b.var("+"), 0, b.var("xs")), "(reduce + 0 xs)"),
    (b.for_each(b.var("f"), b.var("xs")), "(for-each f xs)"),
    (b.try_(b.var("x"), "e", 1, 2), "(try x (catch e 1 2))"),
    (b.loop(3, b.var("x")), "(loop 3 x)"),
    (
        b.iterative_loop(max_iterations=3, initial=0, executor=b.var("f"), controller=b.var("g")),
        "(iterative-loop :max-iterations 3 :initial 0 :executor f :controller g)",
    ),
    (
        b.iterative_loop(
            max_iterations=3, initial=0, executor=b.var("f"), validator=b.var("v"), controller=b.var("g")
        ),
        "(iterative-loop :max-iterations 3 :initial 0 :executor f :validator v :controller g)",
    ),
    (b.parallel(1, 2), "(parallel 1 2)"),
    (b.with_timeout(1.5, 2), "(with-timeout 1.5 2)"),
    (b.with_budget(1, 2, steps=10, cost=0.5), "(with-budget (:steps 10 :cost 0.5) 1 2)"),
    (b.get_context(query="cats", strategy="metadata"), '(get-context :query "cats" :strategy "metadata")'),
    (
        b.template("f", ["x", b.parameter("n", int, 3)], b.var("x"), returns=list[str]),
        '(template f (x (n integer 3)) :returns "string[]" x)',
    ),
    (
        b.template("f", [b.parameter("n", "number"), b.parameter("d", None, {"a": [1]})], 1, 2),
        "(template f ((n number) (d (dict :a (list 1)))) 1 2)",
    ),
    (
        b.deftask("f", ["x"], "Look at {{x}}", model="m", schema={"type": "object"}),
        '(deftask f (x) :instructions "Look at {{x}}" :model "m" :schema "{\\"type\\":\\"object\\"}")',
    ),
]


@batched(("built", "text"), SAME, ids=[text for _, text in SAME])
def test_a_builder_gives_the_tree_that_the_text_reads_to(built: Any, text: str) -> None:
    assert Program((built,)) == read_program(Source("<test>", text))


@batched(("built", "text"), SAME, ids=[text for _, text in SAME])
def test_what_is_built_can_be_printed_and_read(built: Any, text: str) -> None:
    assert read_program(Source("<test>", print_node(built))).forms == (built,)


untyped: Any = b
"""The builders as they are for those who do not check types."""

WRONG: list[tuple[Any, str]] = [
    (lambda: untyped.node(object()), "bad-value"),
    (lambda: untyped.node(float("nan")), "bad-value"),
    (lambda: untyped.call("f", {1, 2}), "bad-value"),
    (lambda: untyped.lambda_(["x"]), "missing-field"),
    (lambda: untyped.with_budget(1, stps=1), "unknown-keyword"),
    (lambda: untyped.with_budget({"stps": 1}, 1), "wrong-type"),
    (lambda: untyped.define("+", 1), "reserved-name"),
    (lambda: untyped.define("taskLibrary", 1), "reserved-name"),
    (lambda: untyped.deftask("if", [], "x"), "reserved-name"),
    (lambda: untyped.template("map", [], 1), "reserved-name"),
    (lambda: untyped.var("a."), "syntax-error"),
    (lambda: untyped.text("{{a b}}"), "syntax-error"),
    (lambda: untyped.condition("1 +"), "syntax-error"),
    (lambda: untyped.task("x", modle="y"), "unknown-keyword"),
    (lambda: untyped.task(3), "bad-value"),
    (lambda: untyped.task("x", model=3), "wrong-type"),
    (lambda: untyped.task("x", timeout=0), "bad-value"),
    (lambda: untyped.task("x", timeout=float("inf")), "bad-value"),
    (lambda: untyped.task("x", timeout=True), "wrong-type"),
    (lambda: untyped.task("x", max_depth=0), "bad-value"),
    (lambda: untyped.task("x", output="xml"), "bad-value"),
    (lambda: untyped.task("x", schema="{"), "bad-value"),
    (lambda: untyped.task("x", schema=object()), "bad-value"),
    (lambda: untyped.task("x", inputs=["a"]), "wrong-type"),
    (lambda: untyped.task("x", tools="system:read"), "wrong-type"),
    (lambda: untyped.task("x", files="a.py"), "wrong-type"),
    (lambda: untyped.task("x", files={}), "bad-value"),
    (lambda: untyped.task("x", context={"inherit": "all"}), "bad-value"),
    (lambda: untyped.task("x", context={"inherits": "full"}), "unknown-keyword"),
    (lambda: untyped.task("x", context={"inherit": "full", "fresh": "enabled"}), "context-conflict"),
    (lambda: untyped.task("x", history={"turns": -1}), "bad-value"),
    (lambda: untyped.task("x", relevance={"a": 1}), "wrong-type"),
    (lambda: untyped.script(argv="ls -l"), "wrong-type"),
    (lambda: untyped.director_evaluator_loop(director=1, evaluator=2, script=b.task("x")), "wrong-type"),
    (lambda: untyped.parameter("a", object()), "bad-value"),
    (lambda: untyped.parameter("a", str, object()), "bad-value"),
]


@batched(("build", "code"), WRONG)
def test_a_mistake_is_a_problem_at_the_line_that_called_the_builder(build: Any, code: str) -> None:
    with pytest.raises(InvalidProgram) as caught:
        build()

    (problem,) = caught.value.found
    assert problem.code == code
    assert problem.span.source.name.startswith(__file__)
    assert problem.message


def test_all_mistakes_of_a_task_are_told_at_once() -> None:
    with pytest.raises(InvalidProgram) as caught:
        untyped.task("{{", modle="x", timeout=-1)

    codes = [problem.code for problem in caught.value.found]
    assert sorted(codes) == ["bad-value", "syntax-error", "unknown-keyword"]
    assert "did you mean 'model'" in str(caught.value)


def test_a_node_knows_the_line_it_was_built_at() -> None:
    node = b.sequential(b.task("a"))

    assert node.span.source.name == __file__
    assert node.span.line == node.steps[0].span.line > 1


def test_a_mistake_in_a_prompt_is_shown_in_the_prompt() -> None:
    with pytest.raises(InvalidProgram) as caught:
        b.task("One\nTwo {{a b}}")

    assert str(caught.value).endswith("\n  Two {{a b}}\n          ^")


def test_a_quoted_list_stays_what_it_is() -> None:
    assert b.if_(Literal(value=1), []) == b.if_(1, b.list_())


def test_a_file_may_be_optional() -> None:
    built = b.task("Review.", files=["a.py", {"path": "b.py", "optional": True}])

    assert '("a.py" ("b.py" :optional true))' in print_node(built)
