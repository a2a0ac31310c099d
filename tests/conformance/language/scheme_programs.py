"""Small Scheme programs and their values: each group is a few definitions and expressions that use them."""

from typing import Any, NamedTuple


class Group(NamedTuple):
    """Definitions, and the value (or the code of the error) of each expression that follows them."""

    definitions: str
    values: dict[str, Any]


DATA = Group(
    "",
    {
        "(quote (depth 12 (0.25 (-6.02e23)) ()))": ["depth", 12, [0.25, [-6.02e23]], []],
        "(first '(lambda (side) side))": "lambda",
        "(- (* 7 (+ 3 5)) (/ 81 9) 0.5)": 46.5,
        '(if (empty? (list 0)) "empty")': None,
        '(if (>= 4 4) "enough")': "enough",
        '(cond ((< 8 3) "less") ((> 8 3) "more") (else "same"))': "more",
        "(begin (define height 2) (set! height (* height height height)) (- height 1))": 7,
        "((lambda (width height) (* 2 (+ width height))) 4 7)": 22,
        '((((lambda (a) (lambda (b) (lambda (c) (format "{}-{}-{}" c b a)))) 1) 2) 3)': "3-2-1",
    },
)

GAUGE = Group(
    """
    (define (gauge low high)
      (let ((level low))
        (lambda (change) (set! level (min high (max low (+ level change)))) level)))
    (define tank (gauge 0 10))
    (define room (gauge 15 25))
    """,
    {
        "(tank 4)": 4,
        "(tank 4) (tank 9)": 10,
        "(tank 4) (tank 9) (tank -1)": 9,
        "(tank -3)": 0,
        "(tank 4) (room 2) (list (tank 0) (room 0))": [4, 17],
        "(try (tank 1 2) (catch e (get-in e '(notes error details code))))": "wrong-arity",
        '(tank "full")': "error: wrong-type",
        "level": "error: unbound-name",
    },
)

MAILBOX = Group(
    """
    (define (mailbox)
      (define letters ())
      (dict :post (lambda (letter) (set! letters (append letters (list letter))) (length letters))
            :read (lambda () letters)))
    (define mine (mailbox))
    (define (post letter) ((get mine :post) letter))
    """,
    {
        '(post "bill")': 1,
        '(post "bill") (post "card") ((get mine :read))': ["bill", "card"],
        '(post "bill") ((get (mailbox) :read))': [],
        "(for-each post (range 5)) (sum ((get mine :read)))": 10,
    },
)

REMEMBERING = Group(
    """
    (define (remembering f)
      (let ((known (dict)) (calls 0))
        (lambda (key)
          (if (not (has-key? known key))
              (begin (set! calls (+ calls 1)) (set! known (assoc known key (f key)))))
          (list (get known key) calls))))
    (define shout (remembering string-upcase))
    """,
    {
        '(shout "hey")': ["HEY", 1],
        '(shout "hey") (shout "you") (shout "hey")': ["HEY", 2],
    },
)

RECTANGLE = Group(
    """
    (define (rectangle width height)
      (lambda (question)
        (cond ((= question 'sides) (list width height))
              ((= question 'area) (* width height))
              ((= question 'turned) (rectangle height width))
              (else (error (format "a rectangle has no {}" question))))))
    (define flag (rectangle 2 5))
    """,
    {
        "(flag 'area)": 10,
        "((flag 'turned) 'sides)": [5, 2],
        "((((flag 'turned) 'turned) 'turned) 'sides)": [5, 2],
        "(flag 'radius)": "error: raised",
        "(try (flag 'radius) (catch e (get-in e '(notes error message))))": "a rectangle has no radius",
        "((flag 'area) 'sides)": "error: wrong-type",
    },
)

PIPELINE = Group(
    """
    (define (pipeline stages) (lambda (input) (reduce (lambda (value stage) (stage value)) input stages)))
    (define (flip f) (lambda (a b) (f b a)))
    (define (passes-all tests) (lambda (value) (all (lambda (test) (test value)) tests)))
    """,
    {
        "((pipeline (list abs sqrt (lambda (n) (+ n 1)))) -16)": 5,
        "((pipeline ()) 7)": 7,
        '(map (pipeline (list string-trim string-upcase)) (list " oak" "elm "))': ["OAK", "ELM"],
        "((pipeline (list (pipeline (list - -)) list)) 3)": [3],
        "((flip -) 2 10)": 8,
        "((flip (flip -)) 2 10)": -8,
        "(reduce (flip cons) () '(p q r))": ["r", "q", "p"],
        "(filter (passes-all (list integer? (lambda (n) (> n 2)))) (list 1 2.5 3 4.5 6))": [3, 6],
        "(try ((flip car) 1 2) (catch e (get-in e '(notes error details code))))": "wrong-arity",
    },
)

TAIL_CALLS = Group(
    """
    (define (common-divisor a b) (if (= b 0) a (common-divisor b (mod a b))))
    (define (hailstones n seen)
      (cond ((= n 1) seen)
            ((= (mod n 2) 0) (hailstones (quotient n 2) (+ seen 1)))
            (else (hailstones (+ (* 3 n) 1) (+ seen 1)))))
    (define (drain amount)
      (if (<= amount 0) "dry" (let* ((spilt 3) (left (- amount spilt))) (begin nil (drain left)))))
    (define (all-below? n limit) (or (= n 0) (and (< n limit) (all-below? (- n 1) limit))))
    (define (tribonacci n a b c) (if (= n 0) a (tribonacci (- n 1) b c (+ a b c))))
    (define (power-mod base exponent modulus)
      (define (step square left product)
        (cond ((= left 0) product)
              ((= (mod left 2) 1) (step square (- left 1) (mod (* product square) modulus)))
              (else (step (mod (* square square) modulus) (quotient left 2) product))))
      (step base exponent 1))
    """,
    {
        "(common-divisor 1071 462)": 21,
        "(hailstones 27 0)": 111,
        "(drain 60000)": "dry",
        "(all-below? 9000 9001)": True,
        "(all-below? 9000 9000)": False,
        "(tribonacci 10 0 0 1)": 81,
        "(tribonacci 150 0 0 1)": 910754042407278960360743315249889541447,
        "(power-mod 3 1000 1009)": 404,
        "(power-mod 5)": "error: wrong-arity",
        "(step 1 2 3)": "error: unbound-name",
    },
)

MUTUAL_CALLS = Group(
    """
    (define (hop left) (if (<= left 0) 'hop (skip (- left 1))))
    (define (skip left) (if (<= left 0) 'skip (hop (- left 2))))
    (define (female n) (if (= n 0) 1 (- n (male (female (- n 1))))))
    (define (male n) (if (= n 0) 0 (- n (female (male (- n 1))))))
    """,
    {
        "(hop 7)": "skip",
        "(hop 30000)": "hop",
        "(map female (range 8))": [1, 1, 2, 2, 3, 3, 4, 5],
        "(map male (range 8))": [0, 0, 1, 2, 2, 3, 4, 4],
    },
)

TREES = Group(
    """
    (define (leaves tree)
      (cond ((not (list? tree)) 1)
            ((empty? tree) 0)
            (else (+ (leaves (car tree)) (leaves (cdr tree))))))
    (define (mirror tree) (if (list? tree) (reverse (map mirror tree)) tree))
    (define (paths rows columns)
      (if (or (= rows 0) (= columns 0)) 1 (+ (paths (- rows 1) columns) (paths rows (- columns 1)))))
    """,
    {
        "(leaves '(a (b c) ((d)) ()))": 4,
        "(mirror '(1 (2 3) ((4) 5)))": [[5, [4]], [3, 2], 1],
        "(= (mirror (mirror '(x (y) z))) '(x (y) z))": True,
        "(paths 4 4)": 70,
    },
)

LISTS = Group(
    """
    (define (runs items)
      (define (add found item)
        (let ((latest (first found)))
          (if (and latest (= (first latest) item))
              (cons (list item (+ 1 (second latest))) (cdr found))
              (cons (list item 1) found))))
      (reverse (reduce add () items)))
    (define (merged a b)
      (cond ((empty? a) b)
            ((empty? b) a)
            ((<= (car a) (car b)) (cons (car a) (merged (cdr a) b)))
            (else (cons (car b) (merged a (cdr b))))))
    (define (ordered items)
      (if (< (length items) 2)
          items
          (let ((half (quotient (length items) 2)))
            (merged (ordered (take items half)) (ordered (drop items half))))))
    (define (sieve numbers)
      (if (null? numbers)
          ()
          (let ((prime (car numbers)))
            (cons prime (sieve (filter (lambda (n) (!= (mod n prime) 0)) (cdr numbers)))))))
    (define (digits number base)
      (define (collect left found)
        (if (< left base) (cons left found) (collect (quotient left base) (cons (mod left base) found))))
      (collect number ()))
    (define (windows size items)
      (if (< (length items) size) '() (cons (take items size) (windows size (cdr items)))))
    """,
    {
        "(runs '(a a b a))": [["a", 2], ["b", 1], ["a", 1]],
        "(runs ())": [],
        "(merged '(1 4 9) '(2 3 10 11))": [1, 2, 3, 4, 9, 10, 11],
        "(ordered (list 5 2.5 8 -1 5 0))": [-1, 0, 2.5, 5, 5, 8],
        '(ordered (list "pear" "fig" "lime"))': ["fig", "lime", "pear"],
        '(ordered (list 1 "fig"))': "error: wrong-type",
        "(sieve (range 2 30))": [2, 3, 5, 7, 11, 13, 17, 19, 23, 29],
        "(digits 2026 10)": [2, 0, 2, 6],
        "(digits 37 2)": [1, 0, 0, 1, 0, 1],
        "(map sum (windows 3 (range 6)))": [3, 6, 9, 12],
        "(apply map list '((1 2) (3 4) (5 6)))": [[1, 3, 5], [2, 4, 6]],
    },
)

NUMBERS = Group(
    """
    (define (polynomial coefficients)
      (lambda (x) (reduce (lambda (value coefficient) (+ (* value x) coefficient)) 0 coefficients)))
    (define (crossing f low high)
      (define middle (/ (+ low high) 2))
      (cond ((< (- high low) 1e-9) middle)
            ((> (* (f low) (f middle)) 0) (crossing f middle high))
            (else (crossing f low middle))))
    (define (area-under f from to slices)
      (define width (/ (- to from) slices))
      (define x (+ from (/ width 2)))
      (define total 0)
      (loop slices (begin (set! total (+ total (* width (f x)))) (set! x (+ x width))))
      total)
    """,
    {
        "((polynomial '(2 -6 2 -1)) 3)": 5,
        "((polynomial '(1 0 0.5)) 2)": 4.5,
        "(round (* 1000000 (crossing (polynomial '(1 0 0 -2)) 1 2)))": 1259921,
        "(< (abs (- 9 (area-under (polynomial '(1 0 0)) 0 3 300))) 0.001)": True,
        "(area-under (polynomial '(1)) 0 8 4)": 8,
        "(area-under identity 0 1 0)": "error: bad-value",
    },
)

CALCULATOR = Group(
    """
    (define (operator-for sign)
      (cond ((= sign "+") +) ((= sign "-") -) ((= sign "*") *) ((= sign "/") /)
            (else (error (string-append "no operator " sign)))))
    (define (calculate text)
      (define (push stack word)
        (let ((number (string->number word)))
          (if (number? number)
              (cons number stack)
              (cons ((operator-for word) (second stack) (first stack)) (drop stack 2)))))
      (first (reduce push () (string-split text))))
    (define (safely thunk otherwise) (try (thunk) (catch problem otherwise)))
    """,
    {
        '((if (contains? "3 * 4" "*") * +) 3 4)': 12,
        '(calculate "3 4 + 2 *")': 14,
        '(calculate "10 4 - 0 +")': 6,
        '(calculate "1 0 /")': "error: bad-value",
        '(calculate "7 8 %")': "error: raised",
        '(calculate "7 +")': "error: wrong-type",
        '(safely (lambda () (calculate "1 0 /")) "no value")': "no value",
        '(map (lambda (text) (safely (lambda () (calculate text)) nil)) (list "1 2 +" "+" "6 3 /"))': [
            3,
            None,
            2,
        ],
    },
)

TEXT = Group(
    """
    (define (letters text) (map (lambda (at) (substring text at (+ at 1))) (range (string-length text))))
    (define (initial word) (first (letters word)))
    (define (initials name) (string-upcase (string-join (map initial (string-split name)))))
    (define (palindrome? text)
      (let ((plain (letters (string-downcase (string-replace text " " "")))))
        (= plain (reverse plain))))
    (define (grouped key items)
      (define (put found item)
        (let* ((name (key item)) (others (get found name ())))
          (assoc found name (append others (list item)))))
      (reduce put (dict) items))
    (define (swapped entry) (dict (second entry) (first entry)))
    (define (inverted table) (apply merge (map swapped (items table))))
    """,
    {
        '(initials "grace brewster hopper")': "GBH",
        '(palindrome? "Never odd or even")': True,
        '(palindrome? "Ever even or odd")': False,
        '(grouped initial (list "ash" "beech" "alder"))': {
            "a": ["ash", "alder"],
            "b": ["beech"],
        },
        "(grouped string ())": {},
        '(inverted (dict :red "stop" :green "walk"))': {"stop": "red", "walk": "green"},
        "(inverted (dict :red 1))": "error: wrong-type",
    },
)

SCOPES = Group(
    """
    (define unit "metre")
    (define (label) unit)
    (define (less-one n) (set! n (- n 1)) n)
    (define asked 0)
    (define (ask answer) (set! asked (+ asked 1)) answer)
    """,
    {
        '(let ((unit "foot")) (list unit (label)))': ["foot", "metre"],
        '(define (measure) (define unit "mile") (label)) (measure)': "metre",
        '(set! unit "yard") (label)': "yard",
        "(define start 5) (list (less-one start) start)": [4, 5],
        "((lambda (n) ((lambda (n) (* n n)) (+ n 1))) 4)": 25,
        "(let ((a 1) (b 2)) (let ((a b) (b a)) (list a b)))": [2, 1],
        "(let ((a 1) (b 2)) (let* ((a b) (b a)) (list a b)))": [2, 2],
        "(let ((max 3)) (min max 9))": 3,
        "(map (lambda (made) (made)) (map (lambda (n) (lambda () (* n n))) (range 4)))": [0, 1, 4, 9],
        "(list (and (ask 1) (ask nil) (ask 3)) asked)": [None, 2],
        '(list (or (ask 0) (ask "b") (ask "c")) asked)': ["b", 2],
        '(and (ask "b") (= asked 1))': True,
        "(or (> asked 0) (and) (ask 4))": True,
        '(try (begin (ask 1) (car (ask ())) (ask 2)) (catch problem (format "{} asked" asked)))': "2 asked",
    },
)

MISTAKES = Group(
    "(define (volume width height depth) (* width height depth))",
    {
        "(volume 2 3 4)": 24,
        "(volume 2 3)": "error: wrong-arity",
        "(volume 2 3 4 5)": "error: wrong-arity",
        "(map volume (list 1 2))": "error: wrong-arity",
        "(* (volume 2 3 4) weight)": "error: unbound-name",
        "(set! weight 1)": "error: unbound-name",
        '(volume 2 3 "deep")': "error: wrong-type",
        "(set! volume)": "error: syntax-error",
        "(set! 8 volume)": "error: syntax-error",
        "(define)": "error: syntax-error",
        '(define "volume" 8)': "error: syntax-error",
        "(quote)": "error: syntax-error",
        "(quote left right)": "error: syntax-error",
        "(if (volume 1 1 1) 'some 'no 'other)": "error: syntax-error",
        '(lambda "side" side)': "error: syntax-error",
        "(lambda (side))": "error: syntax-error",
        "(let ((side)) side)": "error: syntax-error",
        "(let ((side 1 2)) side)": "error: syntax-error",
        "(let* (side 1) side)": "error: syntax-error",
        "(volume 1 2 3": "error: syntax-error",
    },
)

_GROUPS = (
    DATA, GAUGE, MAILBOX, REMEMBERING, RECTANGLE, PIPELINE, TAIL_CALLS, MUTUAL_CALLS,
    TREES, LISTS, NUMBERS, CALCULATOR, TEXT, SCOPES, MISTAKES,
)  # fmt: skip

SCHEME_PROGRAMS: list[tuple[str, Any]] = [
    (group.definitions + expression, value) for group in _GROUPS for expression, value in group.values.items()
]
