"""Tasks and templates: every keyword, and what is refused."""

from typing import Any

import pytest
from msgspec import UNSET

from tests.batches import batched
from tests.unit.language.sexp.reading import messages, problems, read_one
from weft.language.ast import (
    Atomic,
    Begin,
    Condition,
    DirectorEvaluatorLoop,
    FilePaths,
    FunctionCall,
    Input,
    Literal,
    Node,
    Reduce,
    Reference,
    Script,
    Sequential,
    TaskCase,
    TaskCond,
    Template,
    Text,
    Variable,
)
from weft.language.cel import parse_text
from weft.language.source import NOWHERE
from weft.language.task_fields import (
    ContextAssembly,
    ContextOverrides,
    HistorySettings,
    OutputFormat,
    Parameter,
)


def text(raw: str) -> Text:
    return parse_text(raw, NOWHERE)


A = FunctionCall(func_name="a")
ASK = Atomic(instructions=text("ask"))

FIELDS: list[tuple[str, dict[str, Any]]] = [
    (':description "d {{x}}"', {"description": text("d {{x}}")}),
    (':system "s"', {"system": text("s")}),
    (':model "m" :provider "p"', {"model": "m", "provider": "p"}),
    (':criteria "c" :subtype "standard"', {"criteria": "c", "subtype": "standard"}),
    (':output "json"', {"output_format": OutputFormat("json")}),
    (':output "text"', {"output_format": OutputFormat("text")}),
    (':output "json" :schema "string[]"', {"output_format": OutputFormat("json", "string[]")}),
    (':schema "object"', {"output_format": OutputFormat("json", "object")}),
    (':schema "{\\"b\\": 1, \\"a\\": [ 2 ]}"', {"output_format": OutputFormat("json", '{"b":1,"a":[2]}')}),
    (
        ':inputs ((code (a)) (note "t {{x}}") (passed))',
        {"inputs": (Input("code", A), Input("note", Literal(value="t {{x}}")), Input("passed"))},
    ),
    (":inputs ()", {}),
    (':output-slot s :input-source "t"', {"output_slot": "s", "input_source": "t"}),
    (
        ':context (:inherit "none" :accumulate true :format "full" :fresh "enabled")',
        {"context": ContextOverrides("none", True, "full_output", "enabled")},
    ),
    (':context (:format "minimal")', {"context": ContextOverrides(accumulation_format="notes_only")}),
    (":relevance ((code true) (style false))", {"context_relevance": (("code", True), ("style", False))}),
    (':assembly (:primary "p" :excluded "e")', {"context_assembly": ContextAssembly("p", None, "e")}),
    (':files ("a" "{{b}}")', {"file_paths": FilePaths("literal", (text("a"), text("{{b}}")))}),
    (
        ':files ("a" ("b" :optional true) ("c" :optional false))',
        {"file_paths": FilePaths("literal", (text("a"), text("b"), text("c")), optional=(1,))},
    ),
    (":files ()", {"file_paths": FilePaths("literal")}),
    (':files (:command "ls")', {"file_paths": FilePaths("command", (), text("ls"))}),
    (':files (:description "d")', {"file_paths": FilePaths("description", (), text("d"))}),
    (':files (:context-description "d")', {"file_paths": FilePaths("context_description", (), text("d"))}),
    (":history (:use false :turns 3 :record false)", {"history": HistorySettings(False, 3, False)}),
    (":history ()", {"history": HistorySettings()}),
    (':tools ("system:read_files" "b")', {"tools": ("system:read_files", "b")}),
    (":timeout 30 :max-depth 3 :reuse false", {"timeout_seconds": 30.0, "max_depth": 3, "reuse": False}),
    (":timeout 0.5", {"timeout_seconds": 0.5}),
    (":manual-xml true :disable-reparsing true", {"manual_xml": True, "disable_reparsing": True}),
]


@batched(("written", "fields"), FIELDS)
def test_fields_of_tasks(written: str, fields: dict[str, Any]) -> None:
    assert read_one(f'(task :instructions "ask" {written})') == Atomic(instructions=text("ask"), **fields)
    assert read_one(f'(task :ref "r" {written})') == Reference(ref="r", **fields)
    assert read_one(f"(script {written})") == Script(**fields)
    assert read_one(f"(sequential {written} (a))") == Sequential(steps=(A,), **fields)
    template = read_one(f'(deftask t () :instructions "ask" {written} :returns "object")')
    body = Atomic(instructions=text("ask"), **fields)
    assert template == Template(name="t", parameters=(), body=body, returns="object")


@pytest.mark.parametrize(
    ("written", "node"),
    [
        ('(task :description "ask")', Atomic(description=text("ask"))),
        ('(script :argv ("python" "{{x}}"))', Script(argv=(text("python"), text("{{x}}")))),
        ('(script :shell "ls $x")', Script(shell=text("ls $x"))),
        ("(sequential :parallel true (a) (a))", Sequential(steps=(A, A), is_parallel=True)),
        (
            '(reduce-task :initial 0 :inner (a) :reduction (a) :inputs ((x "1")))',
            Reduce(
                initial_value=Literal(value=0),
                inner_task=A,
                reduction_task=A,
                inputs=(Input("x", Literal(value="1")),),
            ),
        ),
        (
            (
                "(director-evaluator-loop :max-iterations 3 :director (a) :evaluator x"
                ' :script (script :shell "s") :condition "evaluation.score > 3")'
            ),
            DirectorEvaluatorLoop(
                max_iterations=3,
                director=A,
                evaluator=Variable(name="x"),
                script=Script(shell=text("s")),
                termination_condition=Condition(text="evaluation.score > 3"),
            ),
        ),
        (
            '(director-evaluator-loop :director (a) :criteria "good")',
            DirectorEvaluatorLoop(director=A, criteria="good"),
        ),
        (
            '(task-cond ("output.valid == true" (a)) ("true" (a) (a)))',
            TaskCond(
                cases=(
                    TaskCase(Condition(text="output.valid == true"), A),
                    TaskCase(Condition(text="true"), Begin(items=(A, A))),
                )
            ),
        ),
        ('(defatom t () :instructions "ask")', Template(name="t", parameters=(), body=ASK)),
        ('(template t () (task :instructions "ask"))', Template(name="t", parameters=(), body=ASK)),
        (
            '(template t () :returns "object" (a) (a))',
            Template(name="t", parameters=(), body=Begin(items=(A, A)), returns="object"),
        ),
    ],
)
def test_kinds_of_tasks(written: str, node: Node) -> None:
    assert read_one(written) == node


@pytest.mark.parametrize(
    ("written", "parameter"),
    [
        ("code", Parameter("code")),
        ('(style "plain")', Parameter("style", None, "plain")),
        ("(style nil)", Parameter("style", None, None)),
        ("(depth integer 3)", Parameter("depth", "integer", 3)),
        ("(depth integer)", Parameter("depth", "integer", UNSET)),
        ("(names string[])", Parameter("names", "string[]", UNSET)),
        ('(names "string[]" (list "a"))', Parameter("names", "string[]", ["a"])),
        ("(names |[]|)", Parameter("names", "[]", UNSET)),
        ("(a ())", Parameter("a", None, [])),
        (
            '(a (dict :b (list 1 -2.5 true) "c d" nil))',
            Parameter("a", None, {"b": [1, -2.5, True], "c d": None}),
        ),
    ],
)
def test_parameters(written: str, parameter: Parameter) -> None:
    template = read_one(f"(template t ({written}) 1)")
    assert isinstance(template, Template)
    assert template.parameters == (parameter,)


REFUSED = {
    '(task :instructons "x" :description "d")': ("unknown-keyword", "did you mean 'instructions'?"),
    '(deftask t () :ref "x" :description "d")': ("unknown-keyword", "`deftask` has no `:ref`"),
    '(deftask t () :instructions "x" 1)': (
        "syntax-error",
        "`deftask` takes keywords and their values only after the parameters",
    ),
    '(task :instructions "x" 1)': ("syntax-error", "`task` takes keywords and their values only"),
    "(task :instructions x)": ("bad-value", ":instructions is a string"),
    '(task :instructions "{{")': ("syntax-error", "never closed"),
    '(task :instructions "x" :output "jsn")': ("bad-value", ':output is one of "json", "text"; did you mean'),
    '(task :instructions "x" :schema "{")': ("bad-value", ":schema is not JSON"),
    '(task :instructions "x" :inputs ((a 1) (a 2)))': ("duplicate-name", ":inputs names `a` 2 times"),
    '(task :instructions "x" :inputs (a))': ("syntax-error", "an input is written (name expression)"),
    '(task :instructions "x" :inputs a)': ("bad-value", ":inputs is a list in parentheses"),
    '(task :instructions "x" :inputs ((a (if))))': ("syntax-error", "`if` is written"),
    '(task :instructions "x" :relevance ((a 1)))': ("bad-value", "the relevance of `a` is true or false"),
    '(task :instructions "x" :context (:inherit "ful"))': ("bad-value", "did you mean 'full'?"),
    '(task :instructions "x" :context (:inherit "full" :fresh "enabled"))': ("context-conflict", "excludes"),
    '(task :instructions "x" :context "full")': ("bad-value", ":context is written (:inherit ..."),
    '(task :instructions "x" :context (:acumulate true))': ("unknown-keyword", "did you mean 'accumulate'?"),
    '(task :instructions "x" :history (1))': ("syntax-error", ":history has keywords"),
    '(task :instructions "x" :files (:command "a" :description "b"))': (
        "bad-value",
        ":files is a list of paths, or",
    ),
    '(task :instructions "x" :files (("a" :optional 1)))': (
        "bad-value",
        ":optional of a path in :files is true",
    ),
    '(task :instructions "x" :files (("a" "b")))': (
        "bad-value",
        'is written "a.py" or ("a.py" :optional true)',
    ),
    '(task :instructions "x" :files (a))': ("bad-value", "a path in :files is a string"),
    '(task :instructions "x" :tools (1))': ("bad-value", "a tool is a string"),
    '(task :instructions "x" :timeout 0)': ("bad-value", ":timeout is a number of seconds above 0"),
    '(task :instructions "x" :timeout true)': ("bad-value", ":timeout is a number of seconds above 0"),
    f'(task :instructions "x" :timeout 1{"0" * 400})': (
        "bad-value",
        ":timeout is a number of seconds above 0",
    ),
    '(task :instructions "x" :max-depth 0)': ("bad-value", ":max-depth is a whole number, at least 1"),
    '(task :instructions "x" :reuse 1)': ("bad-value", ":reuse is true or false"),
    "(script :argv ())": ("bad-value", ":argv begins with the executable to run"),
    "(director-evaluator-loop :director (a) :evaluator (a) :script (a))": ("bad-value", ":script is written"),
    '(task-cond ("a >" 1))': ("syntax-error", ""),
    "(template t ((a b c d)) 1)": ("syntax-error", "a parameter is written name, (name default)"),
    "(template t ((a (f))) 1)": ("bad-value", "a default is a number"),
    "(template t ((a (dict :b))) 1)": ("bad-value", "a value is missing"),
    "(template t ((a (dict 1 2))) 1)": ("bad-value", "a key of a dict"),
    "(template t a 1)": ("syntax-error", "`template` is written"),
}


@batched(("written", "expected"), REFUSED.items())
def test_what_is_refused(written: str, expected: tuple[str, str]) -> None:
    code, part = expected
    assert [found for _, _, found in problems(written)] == [code]
    assert part in messages(written)


def test_all_mistakes_of_a_task_are_found_in_one_reading() -> None:
    written = '(task :instructions "{{" :timeout 0\n  :inputs ((a (if)) (b (loop))) :tols 1)'
    assert problems(written) == [
        (1, 22, "syntax-error"),
        (1, 35, "bad-value"),
        (2, 15, "syntax-error"),
        (2, 24, "syntax-error"),
        (2, 33, "unknown-keyword"),
    ]
