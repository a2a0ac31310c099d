"""Names: what is bound where."""

import pytest

from tests.batches import batched
from tests.unit.language.check.checking import codes, messages, problems
from weft.language.ast import Assign, Define, If, Literal, Program, Variable
from weft.language.check import check_program, required_inputs, scopes
from weft.language.sexp import read_program
from weft.language.source import Source

ACCEPTED = [
    "(define x 1) (+ x 1)",
    "(let ((x 1) (y 2)) (+ x y))",
    "(let* ((x 1) (y x)) y)",
    "((lambda (x) (define y x) y) 1)",
    "(define (f) (g)) (define (g) 1) (f)",
    "(define (f) x) (define (h) (f)) (define x 1) (h)",
    "(define (f n) (if (= n 0) 0 (f (- n 1)))) (f 3)",
    "(define (outer) (define (inner) (later)) (define (later) 1) (inner)) (outer)",
    "(if true (begin (define x 1)) (begin (define x 2))) x",
    "(begin (define x 1)) x",
    "(try (car ()) (catch failure (content failure)))",
    "(map car (list (list 1)))",
    "taskLibrary",
    "(define f (lambda (x) x)) (set! f car) (f (list 1))",
    "(parallel (begin (define x 1)) 2) x",
    "(let ((f (lambda () (g)))) 1) (define (g) 1)",
    "(define (f) (set! x 2)) (define x 1) (f)",
    '(define x 1) (condition "x > 1")',
    "(if (> 1 0) (begin (define (f) (g)) (define (g) 1) (f)))",
    '(deftask t () :instructions "x") (map identity (list t))',
    '(define (f) (t)) (deftask t () :instructions "x") (f)',
    '(deftask t () :instructions "{{limit}}") (define limit 3) (t)',
    '(deftask t (a) :instructions "{{a}}" :context (:fresh "enabled"))',
    '(deftask t (a) :instructions "{{b}}" :inputs ((b a)) :context (:inherit "subset"))',
    '(deftask t () :instructions "{{given}}" :inputs ((given))) (t :given 1)',
    '(let ((x 1)) (task :instructions "{{x}}"))',
    """(let ((x 1)) (reduce-task :inputs ((i x)) :inner (task :instructions "{{input}} {{i}}")
         :reduction (task :instructions "{{current_result}} {{accumulator}} {{original_input}}")))""",
    """(sequential (task :instructions "a" :output-slot one)
         (task :instructions "{{one}} {{last_output}} {{steps}}"))""",
    '(begin (task :instructions "a" :output-slot one) one)',
    """(director-evaluator-loop :instructions "q"
         :director (task :instructions "{{user_query}} {{evaluation_feedback}} {{current_iteration}}")
         :evaluator (task :instructions "{{director_result}} {{script_output}} {{script_errors}}")
         :condition "evaluation.score > 3 || script_exit_code == 0")""",
    '(begin (task-cond ("output.x > 1" 1)))',
]


@batched("program", ACCEPTED)
def test_bound_names_are_accepted(program: str) -> None:
    assert messages(program) == []


ASK = '(deftask ask (x) :instructions "{{x}}")'

REFUSED = [
    ("x", "'x' is not bound"),
    ("(define total 1) totl", "'totl' is not bound; did you mean 'total'?"),
    ("(f)", "'f' is not bound"),
    ("(set! x 1)", "'x' is not bound"),
    ("(let ((x 1) (y x)) y)", "'x' is not bound"),
    ("(begin (let ((x 1)) x) x)", "'x' is not bound"),
    ("(define (f) x)", "'x' is not bound"),
    ("(let ((f (lambda () x))) 1)", "'x' is not bound"),
    ("(lambda () x)", "'x' is not bound"),
    ("(f) (define (f) 1)", "'f' is used before it is defined"),
    ("(define (f) (g)) (f) (define (g) 1)", "'g' is used before it is defined"),
    ("(define (f) (g)) (define (h) (f)) (h) (define (g) 1)", "'g' is used before it is defined"),
    ("((lambda () x)) (define x 1)", "'x' is used before it is defined"),
    ("(if true (begin (define x 1))) x", "'x' may be unbound: only some branches define it"),
    ("(and true (begin (define x 1))) x", "'x' may be unbound: only some branches define it"),
    ("(loop 2 (begin (define x 1))) x", "'x' may be unbound: only some branches define it"),
    (
        "(try (begin (define x 1)) (catch e x))",
        "'x' may be unbound: only some branches define it",
    ),
    ("(parallel (begin (define x 1)) x)", "'x' is used before it is defined"),
    ('(condition "valid")', "'valid' is not bound"),
    ('(deftask t () :instructions "x") (set! t 1)', "'t' is a template and cannot be changed"),
    ('(deftask t () :instructions "{{limit}}") (t) (define limit 3)', "'limit' is used before it is defined"),
    ('(deftask t () :instructions "{{content(x)}}")', "'x' is not bound"),
    ('(deftask t () :instructions "x" :input-source y)', "'y' is not bound"),
    ('(deftask t () :instructions "x" :inputs ((a y.z)))', "'y' is not bound"),
    ('(deftask t () :instructions "x" :files ("{{path}}"))', "'path' is not bound"),
    ('(template t () (script :argv ("echo" "{{word}}")))', "'word' is not bound"),
    (
        '(template t () (sequential (task :instructions "{{last_output}}")))',
        "'last_output' is used before it is defined",
    ),
    (
        """(template t () (sequential (task :instructions "{{two}}")
             (task :instructions "b" :output-slot two)))""",
        "'two' is used before it is defined",
    ),
    (
        """(template t () (reduce-task :inner (task :instructions "{{accumulator}}")
             :reduction (task :instructions "x")))""",
        "'accumulator' is not bound",
    ),
    (
        '(template t () (task-cond ("output.x" (task :instructions "{{output}}"))))',
        "'output' is not bound",
    ),
    (f"{ASK} (ask question) (define question 1)", "'question' is used before it is defined"),
    (
        f"{ASK} (if true (begin (define question 1))) (ask question)",
        "'question' may be unbound: only some branches define it",
    ),
    (f"{ASK} (if true (ask zz))", "'zz' is not bound"),
    (f"{ASK} (template t () (ask zz)) (t)", "'zz' is not bound"),
    (f"{ASK} (ask (zz 1))", "'zz' is not bound"),
    (
        """(template t () (director-evaluator-loop :director (task :instructions "x")
             :evaluator (task :instructions "y") :condition "evaluaton.success"))""",
        "'evaluaton' is not bound; did you mean 'evaluation'?",
    ),
]


@batched(("program", "message"), REFUSED)
def test_names_that_nothing_binds_are_told(program: str, message: str) -> None:
    assert [line.split(": ", 2)[1:] for line in messages(program)] == [["unbound-name", message]]


def test_a_problem_stands_where_the_name_is_used() -> None:
    assert messages("(define (f)\n  (+ 1\n     nowhere))\n(f)\n(f)") == [
        "example:3:6: unbound-name: 'nowhere' is not bound"
    ]


def test_all_problems_are_told_at_once_in_order() -> None:
    assert codes('(list c\n (car) b)\n(deftask t (x) :instructions "{{y}}")') == [
        "unbound-name",
        "wrong-arity",
        "unbound-name",
        "unused-parameter",
        "unbound-name",
    ]


@batched(
    ("program", "names"),
    [
        ('(task :instructions "{{topic}} {{style}} {{topic}}")', ("topic", "style")),
        (
            '(sequential (task :instructions "{{a}}" :output-slot b) (task :instructions "{{b}} {{c.d}}"))',
            ("a", "c"),
        ),
        ('(task :instructions "x" :inputs ((code) (style "plain") (more other.part)))', ("code", "other")),
        ('(define a (task :instructions "{{topic}}")) (list a)', ("topic",)),
        ('(deftask t (x) :instructions "{{x}}") (bind a (t topic))', ("topic",)),
        (
            """(reduce-task :inputs ((i x)) :inner (task :instructions "{{y}}")
                 :reduction (task :instructions "z"))""",
            ("x", "y"),
        ),
        ('(task-cond ("output.ok && ready" 1))', ("ready",)),
        ('(define x 1) (task :instructions "{{x}}")', ()),
        ('(deftask t (x) :instructions "{{x}}")', ()),
        ("(list x)", ()),
        (f"{ASK} (ask question)", ("question",)),
        (f'{ASK} (ask :x (string-append question "?"))', ("question",)),
        (f"{ASK} (ask (ask (first questions)))", ("questions",)),
        (f"{ASK} (list (ask question))", ()),
        (f"{ASK} (define question 1) (ask question)", ()),
        (f"{ASK} (define (main topic) (ask topic)) (main subject)", ("subject",)),
        ("(system:read_files :paths files)", ("files",)),
    ],
)
def test_free_names_of_bare_tasks_and_calls_are_inputs(program: str, names: tuple[str, ...]) -> None:
    assert required_inputs(read_program(Source("example", program))) == names


STEP = '(task :instructions "Plan" :output-slot plan)'


@pytest.mark.parametrize(
    ("program", "meant"),
    [
        (f'(sequential {STEP} (task :instructions "Do {{{{plna}}}}"))', "plan"),
        (f'(sequential {STEP} (task :instructions "Do {{{{last_outptu}}}}"))', "last_output"),
        (f'(sequential {STEP} (task :instructions "Do {{{{step}}}}"))', "steps"),
        (f'(sequential {STEP} (task :instructions "Do it" :input-source plaan))', "plan"),
        ('(task :instructions "{{cod}}" :inputs ((code 1)))', "code"),
        (f"{ASK} (define question 1) (ask quesion)", "question"),
        (f"{ASK} (ask (let ((answer 1)) anwser))", "answer"),
        (
            """(director-evaluator-loop :instructions "q" :director (task :instructions "d")
                 :evaluator (task :instructions "e") :condition "curent_iteration > 1")""",
            "current_iteration",
        ),
    ],
)
def test_what_is_nearly_a_name_that_is_bound_there_is_no_input(program: str, meant: str) -> None:
    (problem,) = problems(program)

    assert problem.code == "unbound-name"
    assert f"did you mean '{meant}'?" in problem.message
    assert required_inputs(read_program(Source("example", program))) == ()


@pytest.mark.parametrize(
    ("program", "names"),
    [
        (f'(sequential {STEP} (task :instructions "Run {{{{tests}}}}"))', ("tests",)),
        (
            f'(sequential :inputs ((plans)) {STEP} (task :instructions "{{{{plan}}}} {{{{plans}}}}"))',
            ("plans",),
        ),
    ],
)
def test_what_is_less_alike_or_made_an_input_is_one(program: str, names: tuple[str, ...]) -> None:
    assert problems(program) == []
    assert required_inputs(read_program(Source("example", program))) == names


def test_a_form_is_no_value() -> None:
    (message,) = messages("(map lambda (list 1))")
    assert message.startswith(
        "example:1:6: unbound-name: 'lambda' is not bound; it is a form, not a function: (lam"
    )
    assert "'catch' is not bound; it is a part of a form: (try" in messages("(catch 1)")[0]


def test_templates_are_suggested_before_built_ins() -> None:
    assert messages('(deftask note-it () :instructions "x") (note)')[0].endswith("did you mean 'note-it'?")


def test_names_of_functions_are_never_inputs() -> None:
    assert codes('(task :instructions "{{f(x)}}")') == ["unbound-name"]
    assert codes("(f x)") == ["unbound-name", "unbound-name"], "nothing is passed to what is not there"


def test_reserved_names_are_told_in_trees_that_no_text_was_read_for() -> None:
    program = Program(
        (Define(name="car", value=Literal(value=1)), Assign(name="list", value=Literal(value=1)))
    )

    assert [problem.code for problem in check_program(program)] == ["reserved-name", "reserved-name"]


def test_functions_that_need_too_much_of_each_other_end_at_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scopes, "MAX_LOOKUPS", 10_000)
    names = " ".join(f"x{number}" for number in range(1_000))
    program = "".join(f"(define (f{number}) " for number in range(50)) + f"(list {names})" + ")" * 50

    assert codes(program) == ["program-too-deep"]


def test_a_program_that_nests_too_deeply_is_refused_and_does_not_crash() -> None:
    node: Variable | If = Variable(name="x")
    for _ in range(100_000):
        node = If(test=node, then=node)

    assert [problem.code for problem in check_program(Program((node,)))] == ["program-too-deep"]


def test_a_built_in_is_never_meant_by_a_placeholder() -> None:
    assert codes('(deftask t () :instructions "{{content}}")') == ["unbound-name"]
    assert required_inputs(read_program(Source("t", '(task :instructions "{{content}}")'))) == ("content",)


def test_a_local_name_hides_a_built_in() -> None:
    assert codes("(define (f items) (length items)) (f (list 1))") == []
    assert codes("(let ((first (lambda (a b) a))) (first 1 2))") == []
    assert codes("(let ((first (lambda (a b) a))) (first 1))") == ["wrong-arity"]


@pytest.mark.parametrize(
    "form",
    [
        '(let* ((error "a")) (ask error))',
        '(let ((error "a")) (ask error))',
        '(try (ask "a") (catch error (ask error)))',
        "(map (lambda (error) (ask error)) (list 1))",
        "(let* ((before 1) (error (ask before)) (after (ask error))) (ask (list error after)))",
    ],
)
@pytest.mark.parametrize("around", ["{}", "(if true {})", "(or false {})", "(loop 2 {})", "(parallel 1 {})"])
def test_a_local_name_hides_a_built_in_in_calls_of_templates_wherever_they_stand(
    form: str, around: str
) -> None:
    assert messages(f"{ASK} {around.format(form)}") == []


def test_a_built_in_that_nothing_hides_is_a_function_in_a_branch_too() -> None:
    (message,) = messages(f'{ASK} (if true (let* ((other "a")) (ask error)))')

    assert message.endswith("'x' of ask is a function, which cannot leave the program")


def test_a_local_function_named_list_or_dict_makes_no_constant() -> None:
    task = '(deftask t ((x number)) :instructions "{{x}}")'

    assert codes(f"{task} (t (list 1))") == ["wrong-type"]
    assert codes(f"{task} (let* ((list (lambda (x) 5))) (t (list 1)))") == []
    assert codes("(let ((list (lambda (x) false))) (cond ((list 1) 1) (else 2)))") == []
