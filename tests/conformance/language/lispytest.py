"""Those cases of Peter Norvig's lispytest.py that are programs of this language too.

https://norvig.com/lispytest.py, (c) Peter Norvig, MIT licence. Each case there builds on those before; here
a program says what it needs. Left out: macros, quasi-quote, call/cc, ports, variable arguments. Renamed
where a name is built in here (abs, zip, take, drop); numbers like `200.` are written as in JSON.
"""

from typing import Any

_COMPOSE = """
(define twice (lambda (x) (* 2 x)))
(define compose (lambda (f g) (lambda (x) (f (g x)))))
(define repeat (lambda (f) (compose f f)))
"""
_FACT = "(define fact (lambda (n) (if (<= n 1) 1 (* n (fact (- n 1))))))"
_COMBINE = """
(define combine (lambda (f)
  (lambda (x y)
    (if (null? x) (quote ())
        (f (list (car x) (car y))
           ((combine f) (cdr x) (cdr y)))))))
(define pairs (combine cons))
"""
_SHUFFLE = (
    _COMPOSE
    + _COMBINE
    + """
(define riff-shuffle (lambda (deck) (begin
    (define upto (lambda (n seq) (if (<= n 0) (quote ()) (cons (car seq) (upto (- n 1) (cdr seq))))))
    (define beyond (lambda (n seq) (if (<= n 0) seq (beyond (- n 1) (cdr seq)))))
    (define mid (lambda (seq) (/ (length seq) 2)))
    ((combine append) (upto (mid deck) deck) (beyond (mid deck) deck)))))
"""
)
_ACCOUNT = "(define (account bal) (lambda (amt) (set! bal (+ bal amt)) bal)) (define a1 (account 100))"
_NEWTON = """
(define (newton guess function derivative epsilon)
  (define guess2 (- guess (/ (function guess) (derivative guess))))
  (if (< (abs (- guess guess2)) epsilon) guess2 (newton guess2 function derivative epsilon)))
(define (square-root a) (newton 1 (lambda (x) (- (* x x) a)) (lambda (x) (* 2 x)) 1e-8))
"""
_SUMS = """
(define (sum-squares-range start end)
  (define (sumsq-acc start end acc)
    (if (> start end) acc (sumsq-acc (+ start 1) end (+ (* start start) acc))))
  (sumsq-acc start end 0))
"""
_FACT_50 = 30414093201713378043612608166064768844377641568960512000000000000

LISPYTEST: list[tuple[str, Any]] = [
    ("(quote (testing 1 (2.0) -3.14e159))", ["testing", 1, [2.0], -3.14e159]),
    ("(+ 2 2)", 4),
    ("(+ (* 2 100) (* 1 10))", 210),
    ("(if (> 6 5) (+ 1 1) (+ 2 2))", 2),
    ("(if (< 6 5) (+ 1 1) (+ 2 2))", 4),
    ("(define x 3) (+ x x)", 6),
    ("(begin (define x 1) (set! x (+ x 1)) (+ x 1))", 3),
    ("((lambda (x) (+ x x)) 5)", 10),
    (_COMPOSE + "(twice 5)", 10),
    (_COMPOSE + "((compose list twice) 5)", [10]),
    (_COMPOSE + "((repeat twice) 5)", 20),
    (_COMPOSE + "((repeat (repeat twice)) 5)", 80),
    (_FACT + "(fact 3)", 6),
    (_FACT + "(fact 50)", _FACT_50),
    (
        "(define size (lambda (n) ((if (> n 0) + -) 0 n))) (list (size -3) (size 0) (size 3))",
        [3, 0, 3],
    ),
    (_COMBINE + "(pairs (list 1 2 3 4) (list 5 6 7 8))", [[1, 5], [2, 6], [3, 7], [4, 8]]),
    (_SHUFFLE + "(riff-shuffle (list 1 2 3 4 5 6 7 8))", [1, 5, 2, 6, 3, 7, 4, 8]),
    (_SHUFFLE + "((repeat riff-shuffle) (list 1 2 3 4 5 6 7 8))", [1, 3, 5, 7, 2, 4, 6, 8]),
    (
        _SHUFFLE + "(riff-shuffle (riff-shuffle (riff-shuffle (list 1 2 3 4 5 6 7 8))))",
        [1, 2, 3, 4, 5, 6, 7, 8],
    ),
    ("(set! x)", "error: syntax-error"),
    ("(define 3 4)", "error: syntax-error"),
    ("(quote 1 2)", "error: syntax-error"),
    ("(if 1 2 3 4)", "error: syntax-error"),
    ("(lambda 3 3)", "error: syntax-error"),
    ("(lambda (x))", "error: syntax-error"),
    ("(define (twice x) (* 2 x)) (twice 2)", 4),
    ("(define (twice x) (* 2 x)) (twice 2 2)", "error: wrong-arity"),
    ("(if 1 2)", 2),
    ("(if (= 3 4) 2)", None),
    (_ACCOUNT + "(a1 0)", 100),
    (_ACCOUNT + "(a1 10) (a1 10)", 120),
    (_NEWTON + "(> (square-root 200.0) 14.14213)", True),
    (_NEWTON + "(< (square-root 200.0) 14.14215)", True),
    (_NEWTON + "(= (square-root 200.0) (sqrt 200.0))", True),
    (_SUMS + "(sum-squares-range 1 3000)", 9004500500),
    ("(let ((a 1) (b 2)) (+ a b))", 3),
    ("(let ((a 1) (b 2 3)) (+ a b))", "error: syntax-error"),
    ("(and 1 2 3)", 3),
    ("(and (> 2 1) 2 3)", 3),
    ("(and)", True),
    ("(and (> 2 1) (> 2 3))", False),
]
