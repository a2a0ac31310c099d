"""Tasks, templates and cases: what must be there, what excludes what, what is never reached."""

from tests.batches import batched
from tests.unit.language.check.checking import codes, messages
from weft.language.ast import (
    Atomic,
    Condition,
    DirectorEvaluatorLoop,
    FunctionCall,
    Input,
    Lambda,
    Literal,
    Node,
    Program,
    Reduce,
    Script,
    Sequential,
    TaskCase,
    TaskCond,
    Template,
    WithBudget,
)
from weft.language.cel import parse_text
from weft.language.check import check_program
from weft.language.source import NOWHERE, Source
from weft.language.task_fields import ContextOverrides, OutputFormat, Parameter
from weft.language.xml import read_xml

PROMPT = parse_text("x", NOWHERE)
TASK = Atomic(instructions=PROMPT)
CLOSED = (
    """{"type":"object","properties":{"valid":{"type":"boolean"}},"additionalProperties":false}""".replace(
        '"', '\\"'
    )
)


def after(shape: str, condition: str) -> str:
    """Return a program that asks for an output of a shape and then tests it."""
    return (
        f'(sequential (task :instructions "x" :output "json" :schema "{shape}")'
        f' (task-cond ("{condition}" (task :instructions "y"))))'
    )


@batched(
    ("node", "code"),
    [
        (Atomic(), "missing-field"),
        (Sequential(), "missing-field"),
        (Reduce(inner_task=TASK), "missing-field"),
        (Reduce(reduction_task=TASK), "missing-field"),
        (DirectorEvaluatorLoop(evaluator=TASK), "missing-field"),
        (DirectorEvaluatorLoop(director=TASK), "missing-field"),
        (DirectorEvaluatorLoop(director=TASK, evaluator=TASK, max_iterations=0), "bad-value"),
        (Script(), "missing-field"),
        (Script(shell=parse_text("echo {{1}}", NOWHERE)), "bad-value"),
        (
            Atomic(
                instructions=PROMPT, context=ContextOverrides(inherit_context="full", fresh_context="enabled")
            ),
            "context-conflict",
        ),
        (Atomic(instructions=PROMPT, output_format=OutputFormat("json", '{"type": 5}')), "bad-value"),
        (
            Atomic(instructions=PROMPT, inputs=(Input("a", Literal(value=1)), Input("a", Literal(value=2)))),
            "duplicate-name",
        ),
        (Lambda(parameters=("a", "a"), body=Literal(value=1)), "duplicate-name"),
        (TaskCond(cases=(TaskCase(Condition(text="1 +"), TASK),)), "syntax-error"),
        (WithBudget(limits=(("step", Literal(value=1)),), body=TASK), "unknown-keyword"),
        (Template(name="t", parameters=(Parameter("a"), Parameter("a")), body=TASK), "duplicate-name"),
        (Node(), "bad-value"),
    ],
)
def test_trees_that_cannot_be_evaluated_are_refused(node: Node, code: str) -> None:
    assert code in [problem.code for problem in check_program(Program((node,)))]


ACCEPTED = [
    '(script :inputs ((command "ls")))',
    after("object", "output.anything.at_all > 1"),
    after(CLOSED, "output.valid"),
    after(CLOSED, "has(output.other)"),
    after("object[]", "output[0].name == 'x'"),
    after("schemas/result.json", "output.x"),
    '(sequential (task :instructions "x") (task-cond ("output.a" 1) ("output.b" 2) ("true" 3)))',
    '(define n 1) (cond ((= n 1) "a") ((= n true) "b") (else "c"))',
    "(define (next) 1) (cond ((next) 1) ((next) 2))",
    "(template t (n) (if (> n 0) (t (- n 1)) nil)) (t 1)",
    '(deftask t (a) :instructions "x" :inputs ((a "text")))',
    '(deftask t (a) :instructions "x" :input-source a)',
    '(template t () (sequential (task :instructions "a"))) (t :model "local:auto" :context (dict))',
    '(deftask f () :instructions "a") (template t () (task :ref "f")) (t :files (list "a.py"))',
    '(deftask t (a) :instructions "{{a}}" :inputs ((b 1)) :relevance ((a true) (b false)))',
    '(deftask t (a) :instructions "x" :input-source a :relevance ((input true)))',
    '(deftask t () :instructions "x" :returns "object" :output "json" :schema "object")',
    '(deftask t () :instructions "x" :returns "object")',
]


@batched("program", ACCEPTED)
def test_right_tasks_are_accepted(program: str) -> None:
    assert messages(program) == []


REFUSED = [
    (
        after("string[]", "output.valid"),
        "missing-field",
        "the output before has no output.valid: its schema says array",
    ),
    (
        f"""(deftask f () :instructions "x" :output "json" :schema "{CLOSED}")
            (sequential (f) (task-cond ("output.vald" 1)))""",
        "missing-field",
        "the output before has no output.vald: its schema has no field 'vald'; did you mean 'valid'?",
    ),
    (
        """(deftask f () :instructions "x" :returns "number[]")
           (sequential (task :ref "f") (task-cond ("output.sum > 3" 1)))""",
        "missing-field",
        "the output before has no output.sum: its schema says array",
    ),
    (
        '(task-cond ("output.a > 1" 1) ("output.a  > 1" 2))',
        "unreachable-case",
        "this case is never taken: a case before it has the same condition",
    ),
    (
        '(task-cond ("1 < 2" 1) ("output.a" 2))',
        "unreachable-case",
        "this case is never taken: the condition of a case before it is always true",
    ),
    (
        "(define n 1) (cond ((= n 1) 1) ((= n 1) 2))",
        "unreachable-case",
        "this case is never taken: a clause before it has the same test",
    ),
    (
        '(deftask t () :instructions "x" :returns "number" :output "json" :schema "object")',
        "wrong-type",
        "the template 't' returns number, and its body does not: its output format says object",
    ),
    (
        '(template t () :returns "number" "text")',
        "wrong-type",
        'the template \'t\' returns number, and its body does not: "text" is not of type "number"',
    ),
    (
        '(deftask t ((n integer "many")) :instructions "{{n}}")',
        "wrong-type",
        'the default of \'n\' must be integer: "many" is not of type "integer"',
    ),
    ('(deftask t ((n intger)) :instructions "{{n}}")', "bad-value", "'intger' is no shape"),
    (
        '(deftask t () :instructions "x") (deftask t () :instructions "y")',
        "duplicate-name",
        "the template 't' is defined twice (first at example:1:1)",
    ),
    (
        '(template t () 1) (task :ref "t" :model "local:auto")',
        "bad-value",
        "fields on a reference are for single tasks, and the body of t is not a task: model",
    ),
    (
        '(deftask t (style) :instructions "{{style}}" :relevance ((styl true)))',
        "unbound-name",
        "context_relevance names 'styl', which is not an input of the task; did you mean 'style'?",
    ),
    (
        '(let ((a 1)) (task :instructions "{{a}}" :relevance ((a true))))',
        "unbound-name",
        "context_relevance names 'a', which is not an input of the task",
    ),
    *(
        (
            f"({kind} {field})",
            "bad-value",
            f"{name} is for atomic tasks, and this is a {word} task",
        )
        for kind, word in (
            ('sequential (task :instructions "x")', "sequential"),
            ('script :argv ("ls")', "script"),
            ("reduce-task :inner 1 :reduction 2", "reduce"),
            (
                "director-evaluator-loop :director 1 :evaluator (dict :success true)",
                "director_evaluator_loop",
            ),
        )
        for field, name in (
            (':files ("a.py")', "file_paths"),
            (":history (:use false)", "history"),
            (':system "s"', "system"),
            (':tools ("system:read_files")', "tools"),
        )
    ),
    (
        '(template t () (sequential (task :instructions "a"))) (t :files (list) :history (dict :use true))',
        "bad-value",
        "t: file_paths, history are for atomic tasks, and this is a sequential task; write them on the tasks",
    ),
    (
        '(template t () (sequential (task :instructions "a"))) (task :ref "t" :system "s")',
        "bad-value",
        "t: system is for atomic tasks, and this is a sequential task",
    ),
    ('(task :instructions "x" :tools ("system:write"))', "unknown-tool", "there is no tool 'system:write'"),
    (
        '(task :instructions "x" :model "other:auto" :provider "remote")',
        "unknown-model",
        "there is no model 'remote:auto'",
    ),
    (
        "(template t () (t))",
        "template-cycle",
        "these templates can never end: t -> t; each always runs the next",
    ),
    (
        '(template t () (sequential (task :instructions "x") (u))) (template u () (begin 1 (t)))',
        "template-cycle",
        "these templates can never end: t -> u -> t; each always runs the next",
    ),
    (
        '(deftask f (a) :instructions "{{a}}") (task :ref "f" :instructions "{{b}} {{a}}" :inputs ((a 1)))',
        None,
        "",
    ),
    (
        """(deftask f (a) :instructions "{{a}}")
           (template g () (task :ref "f" :instructions "{{b}} {{a}}" :inputs ((a 1))))""",
        "unbound-name",
        "'b' is not bound",
    ),
]


@batched(("program", "code", "message"), REFUSED)
def test_wrong_tasks_are_told(program: str, code: str | None, message: str) -> None:
    found = [line.split(": ", 2)[1:] for line in messages(program)]

    assert [code for code, _ in found] == ([] if code is None else [code])
    assert all(text.startswith(message) for _, text in found)


def test_fields_of_a_request_are_refused_on_composites_in_xml_too() -> None:
    content = b"""<task type="sequential"><system>s</system><tools>system:read_files</tools>
      <steps><task><description>d</description></task></steps></task>"""
    found = check_program(read_xml(Source("example.xml", content.decode()), content))

    assert [(one.code, one.message.partition(",")[0]) for one in found] == [("bad-value", "system")]
    assert "system, tools are for atomic tasks" in found[0].message


def test_a_parameter_that_has_the_name_of_its_template_is_not_taken_for_a_cycle() -> None:
    body = FunctionCall(func_name="t")
    program = Program(
        (
            Template(name="t", parameters=(Parameter("t"),), body=body),
            FunctionCall(func_name="t", args=(Lambda(parameters=(), body=Literal(value=1)),)),
        )
    )

    assert [problem.code for problem in check_program(program)] == ["wrong-type"]  # no template-cycle


LOOP = '(director-evaluator-loop :criteria "{}" :director (task :instructions "write"))'
JUDGE = (
    '(deftask judge (director_result {}) :subtype "evaluator" :description "Judge prose"'
    ' :instructions "{{{{director_result}}}}")'
)


def test_criteria_of_a_loop_that_match_no_evaluator_are_told() -> None:
    assert codes(LOOP.format("good prose")) == ["unknown-task"]
    assert codes(JUDGE.format("") + LOOP.format("safe code")) == ["unknown-task"]
    assert codes(JUDGE.format("") + LOOP.format("good prose")) == []
    assert codes(LOOP.format("good prose") + JUDGE.format("")) == []


def test_an_evaluator_that_criteria_choose_is_called_with_names_of_the_loop() -> None:
    judge = JUDGE.format("strictness").replace("{{director_result}}", "{{director_result}} {{strictness}}")

    assert codes(judge + LOOP.format("good prose")) == ["wrong-arity"]
    assert codes(judge.replace("strictness", "script_output") + LOOP.format("good prose")) == []


def test_criteria_of_a_cond_that_match_no_evaluator_are_told() -> None:
    cond = '(sequential (task :instructions "a") (task-cond :criteria "good prose" ("evaluation.success" 1)))'

    assert codes(cond) == ["unknown-task"]
    assert codes(JUDGE.format("") + cond) == []
