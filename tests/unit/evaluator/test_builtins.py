"""Built-ins as a table. Their values: tests/conformance/language/built_ins.py."""

import pytest

from tests.batches import batched
from tests.conformance.language.built_ins import BUILT_INS as ROWS
from tests.conformance.language.forms import FORMS as FORM_ROWS
from tests.evaluation import outcome_of, value_of
from weft.evaluator.builtins import BUILT_INS
from weft.evaluator.values import are_equal, check_finite, key_of
from weft.language.builtins import BUILT_IN_NAMES, SIGNATURES


def test_there_are_exactly_the_built_ins_of_the_language() -> None:
    assert set(BUILT_INS) == BUILT_IN_NAMES


@batched("name", sorted(BUILT_IN_NAMES))
def test_a_built_in_says_in_one_line_how_it_is_called(name: str) -> None:
    assert BUILT_INS[name].doc.startswith(f"({name}")
    assert "\n" not in BUILT_INS[name].doc


@batched("name", sorted(BUILT_IN_NAMES))
def test_every_built_in_stands_in_the_table_of_programs(name: str) -> None:
    words = (
        " ".join(program for program, _ in [*ROWS, *FORM_ROWS]).replace("(", " ").replace(")", " ").split()
    )

    assert name in words


@batched("name", sorted(BUILT_IN_NAMES), size=100)
@pytest.mark.parametrize(
    "value", ["nil", "true", "-1", "1.5", '"s"', "'q", "(list 1)", '(dict :a "b")', "car"]
)
async def test_a_built_in_takes_any_value_or_says_no(name: str, value: str) -> None:
    least, most = SIGNATURES[name].least, SIGNATURES[name].most
    for count in {least, most or least + 2}:
        outcome = await outcome_of(f"({name} {' '.join([value] * count)})")
        assert not str(outcome).startswith("error: ") or outcome in (
            "error: wrong-type",
            "error: bad-value",
            "error: wrong-arity",
            "error: size-exhausted",
            "error: raised",
        )


@batched("name", sorted(name for name in BUILT_IN_NAMES if not BUILT_INS[name].needs_compiler))
async def test_an_argument_of_a_kind_that_the_table_excludes_is_refused(name: str) -> None:
    signature = SIGNATURES[name]
    for position, argument in enumerate(signature.expand(max(signature.least, 1))):
        values = ["nil"] * max(signature.least, 1)
        values[position] = "taskLibrary"  # of no kind that a built-in takes
        if argument.kinds and argument.words != ("json",):
            assert await outcome_of(f"({name} {' '.join(values)})") == "error: wrong-type"


@batched("name", sorted(name for name, one in SIGNATURES.items() if one.most is not None))
async def test_too_many_arguments_are_refused(name: str) -> None:
    most = SIGNATURES[name].most or 0

    assert await outcome_of(f"({name} {'1 ' * (most + 1)})") == "error: wrong-arity"


@pytest.mark.parametrize(
    "program",
    [
        '(define s (string-append (string-join (range 1000) "x") "")) (loop 40 (set! s (string-append s s)))',
        "(define s (list 1 2)) (loop 40 (set! s (append s s)))",
        '(define s "aa") (loop 40 (set! s (string-replace s "a" "aa")))',
        '(define s "aa") (loop 40 (set! s (format "{}{}" s s)))',
        "(define s (list 1 2)) (loop 40 (set! s (flatten (list s s))))",
        '(define s (list "a")) (loop 40 (set! s (list (string-join (append s s)))))',
        "(define s 2) (loop 40 (set! s (* s s)))",
        "(define s 2) (loop 40 (set! s (expt s s)))",
        "(define s 1) (loop 100000 (set! s (+ s s)))",
        "(range 0 10000000000)",
        "(range (expt 10 30))",
        "(define s 1) (loop 60 (set! s (list s s))) (json-string s)",
        "(define s 1) (loop 60 (set! s (list s s))) (string s)",
        "(define s 1) (define t 1) (loop 60 (begin (set! s (list s s)) (set! t (list t t)))) (= s t)",
        "(define s 1) (loop 60 (set! s (list s s))) (unique (list s))",
        "(define s 1) (loop 60 (set! s (list s s))) (flatten s)",
    ],
)
async def test_a_value_that_grows_ends_at_the_limit(program: str) -> None:
    assert await outcome_of(program) == "error: size-exhausted"


async def test_a_value_of_any_depth_can_be_compared() -> None:
    nested = "(define s 1) (loop 100000 (set! s (list s))) "
    other = "(define t 1) (loop 100000 (set! t (list t))) "

    assert await value_of(nested + other + "(list (= s t) (= s (list t)) (length (unique (list s t))))") == [
        True, False, 1,
    ]  # fmt: skip
    assert await outcome_of(nested + "(json-string s)") == "error: depth-exhausted"
    assert await value_of(nested + "(flatten s)") == [1]


def test_equality_looks_at_kinds() -> None:
    assert are_equal({"a": [1, 2.0]}, {"a": [1.0, 2]})
    assert not are_equal({"a": True}, {"a": 1})
    assert not are_equal({"a": 1}, {"b": 1})
    assert key_of([1, "1"]) == key_of([1.0, "1"]) != key_of([True, "1"])


def test_a_value_of_the_deepest_depth_is_finite() -> None:
    value: object = 1
    for _ in range(200):
        value = [value]
    check_finite(value)
