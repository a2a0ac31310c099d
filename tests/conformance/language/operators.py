# ruff: noqa: E501  a program stands on one line
"""Programs that use task operators: what is answered, and what must come out.

Expectations are looked up by path: `content`, `status`, `parsedContent`, `notes.x` of the result; `value` for
results that are no task results; `error.x` of the TaskError of a failed program; `prompts`, `titles`, `argv`,
`stdin`, `environment` of what reached the effects.
"""

from typing import Any, NamedTuple

from weft.evaluator.effects import ScriptOutcome
from weft.evaluator.results import TaskResult


class Row(NamedTuple):
    """One program."""

    name: str
    program: str
    answers: Any
    expected: dict[str, Any]
    scripts: Any = ()
    bindings: dict[str, Any] = {}  # noqa: RUF012  never changed
    tools: Any = None


GOOD = {"success": True, "feedback": "fine"}
BAD = {"success": False, "feedback": "shorter"}
FAILED_RUN = ScriptOutcome("out", "boom\nlast words", 3)

ATOMIC = [
    Row(
        "a tool that answers CONTINUATION fails",
        "(t:x)",
        [],
        {
            "error.reason": "tool_execution_error",
            "error.message": "tool 't:x' returned the status CONTINUATION; only a task can request a subtask",
        },
        tools={"t:x": lambda: {"content": "", "status": "CONTINUATION", "notes": {"subtask_request": {}}}},
    ),
    Row(
        "a status of something else is the tool's own",
        '(get (t:x) "status")',
        [],
        {"value": "CONTINUATION"},
        tools={"t:x": lambda: {"status": "CONTINUATION"}},
    ),
    Row(
        "titles show values, not placeholders",
        '(define who "Ada") (sequential (task :instructions "Greet {{who}} {{tone}}" :inputs ((tone "warmly")))'
        ' (task :instructions "After {{last_output}}: {{string(1)}}"))',
        ["hi", "bye"],
        {
            "notes.steps": [
                {"step": 0, "title": "Greet Ada warmly", "status": "COMPLETE"},
                {"step": 1, "title": "After hi: ...", "status": "COMPLETE"},
            ]
        },
    ),
    Row(
        "the texts of a loop are empty, not null, in the first round",
        '(director-evaluator-loop :max-iterations 2 :director (task :instructions "Write.[{{evaluation_feedback}}{{director_result}}{{script_output}}]")'
        ' :evaluator (task :instructions "Judge" :output "json"))',
        ["draft", {"success": False}, "better", {"success": True}],
        {
            "prompts": ["Write.[]", "Judge", "Write.[draft]", "Judge"],
            "notes.evaluation": {"success": True, "feedback": ""},
        },
    ),
    Row(
        "a list or an object is a default that gives way to what is passed",
        '(deftask t () :instructions "{{x}} {{y}} {{z}}" :inputs ((x (list 1 2)) (y (json-parse "{}")) (z \'(a))))'
        ' (t) (t :x (list 3) :y (dict :k 1) :z (list "b"))',
        ["one", "two"],
        {"prompts": ['[1, 2] {} ["a"]', '[3] {"k": 1} ["b"]']},
    ),
    Row(
        "a binding replaces a list that is the default of a task at the top level",
        '(task :instructions "{{x}} {{y}}" :inputs ((x (list 1 (dict :a 2))) (y (list (+ 1 1)))))',
        ["x"],
        {"prompts": ["5 [2]"]},
        bindings={"x": 5, "y": 6},
    ),
    Row(
        "the failing expression is the task, not the line",
        '(list 1 (task :instructions "x") 2)',
        [
            TaskResult(
                "",
                "FAILED",
                notes={"error": {"type": "TASK_FAILURE", "reason": "execution_halted", "message": "no"}},
            )
        ],
        {"error.details.failing_expression": '(task :instructions "x")'},
    ),
    Row(
        "the failing expression is the script, not the line",
        '(list (script :argv ("false")) 9)',
        [],
        {"error.details.failing_expression": '(script :argv ("false"))'},
        scripts=[FAILED_RUN],
    ),
    Row(
        "the failing expression is the call of the tool, not the line",
        "(list (t:x 1) 9)",
        [],
        {"error.details.failing_expression": "(t:x 1)"},
        tools={"t:x": lambda value: value / 0},
    ),
    Row(
        "the failing expression of a composite is that of the step",
        '(sequential (task :instructions "a") (script :argv ("false")))',
        ["a"],
        {"error.details.failing_expression": '(script :argv ("false"))', "error.details.failedStep": 1},
        scripts=[FAILED_RUN],
    ),
    Row(
        "the failing expression is the placeholder",
        '(let ((b 1)) (task :instructions "{{b}} {{missing}} and more"))',
        [],
        {"error.details.failing_expression": "missing"},
    ),
    Row(
        "the failing expression is the call of a template",
        '(deftask f ((n integer)) :instructions "{{n}}") (list (f) 9)',
        [],
        {"error.details.failing_expression": "(f)"},
    ),
    Row(
        "a placeholder calls a tool",
        '(task :instructions "{{t:x(1)}}")',
        ["x"],
        {"prompts": ["[1]"]},
        tools={"t:x": lambda value: [value]},
    ),
    Row(
        "a template comes before a tool of its name, and a local binding before both",
        '(deftask t:x (n) :instructions "{{n}}") (list (content (t:x 1)) (t:y 2) (let ((t:y (lambda (n) n))) (t:y 3)))',
        ["template"],
        {"value": ["template", "tool", 3]},
        tools={"t:x": lambda n: "tool", "t:y": lambda n: "tool"},
    ),
    Row(
        "a tool is no input",
        '(task :instructions "x" :input-source t:x)',
        [],
        {"error.message": "name 't:x' is not bound"},
    ),
    Row(
        "a task says what the model says",
        '(task :instructions "Say hi")',
        ["hi"],
        {"content": "hi", "status": "COMPLETE"},
    ),
    Row(
        "the prompt is the instructions",
        '(task :description "d" :instructions "i")',
        ["x"],
        {"prompts": ["i"]},
    ),
    Row("without instructions it is the description", '(task :description "d")', ["x"], {"prompts": ["d"]}),
    Row(
        "placeholders are inputs",
        '(task :instructions "Say {{word}}" :inputs ((word "hi")))',
        ["x"],
        {"prompts": ["Say hi"]},
    ),
    Row(
        "placeholders see the enclosing scope",
        '(let ((word "hi")) (task :instructions "Say {{word}}"))',
        ["x"],
        {"prompts": ["Say hi"]},
    ),
    Row(
        "a value with braces stays text",
        '(let ((a "{{b}}") (b "no")) (task :instructions "{{a}}"))',
        ["x"],
        {"prompts": ["{{b}}"]},
    ),
    Row(
        "numbers are JSON text",
        '(task :instructions "{{n}} {{t}} {{z}}" :inputs ((n 1.5) (t true) (z nil)))',
        ["x"],
        {"prompts": ["1.5 true null"]},
    ),
    Row(
        "lists are JSON text",
        '(task :instructions "{{xs}}" :inputs ((xs (list 1 "a"))))',
        ["x"],
        {"prompts": ['[1, "a"]']},
    ),
    Row(
        "a task result is its content",
        '(let ((r (task :instructions "one"))) (task :instructions "{{r}}!"))',
        ["two", "x"],
        {"prompts": ["one", "two!"]},
    ),
    Row(
        "a path goes into parsed content",
        '(let ((r (task :instructions "one" :output "json"))) (task :instructions "{{r.a[1]}}"))',
        [{"a": [1, 2]}, "x"],
        {"prompts": ["one", "2"]},
    ),
    Row(
        "a placeholder calls a template",
        '(deftask up (w) :instructions "UP {{w}}") (task :instructions "{{up(\'a\')}}!")',
        {"UP a": "A", "A!": "x"},
        {"prompts": ["UP a", "A!"]},
    ),
    Row(
        "inputs may be tasks",
        '(task :instructions "{{a}}+{{b}}" :inputs ((a (task :instructions "A")) (b (task :instructions "B"))))',
        {"+": "x", "A": "1", "B": "2"},
        {"prompts": ["A", "B", "1+2"]},
    ),
    Row(
        "every missing name is told",
        '(task :instructions "{{a}} {{b}}" :system "{{c}}")',
        [],
        {"error.message": "names are not bound: 'a', 'b', 'c'", "error.reason": "input_validation_failure"},
    ),
    Row(
        "a missing name gets a hint",
        '(task :instructions "{{wrod}}" :inputs ((word "x")))',
        [],
        {"error.message": "name 'wrod' is not bound; did you mean 'word'?"},
    ),
    Row(
        "nothing inherited: outer names are not seen",
        '(let ((a 1)) (task :instructions "{{a}}" :context (:inherit "none")))',
        [],
        {"error.message": "name 'a' is not bound"},
    ),
    Row(
        "a binding of the program replaces a text",
        '(task :instructions "{{code}}" :inputs ((code "the code")))',
        ["x"],
        {"prompts": ["print"]},
        bindings={"code": "print"},
    ),
    Row(
        "input_source is the input",
        '(sequential (task :instructions "one" :output-slot s) (task :instructions "{{input}}" :input-source s))',
        ["1", "2"],
        {"prompts": ["one", "1"]},
    ),
    Row(
        "criteria reach the result", '(task :instructions "x" :criteria "good")', ["a"], {"criteria": "good"}
    ),
    Row(
        "a failed answer fails the task",
        '(task :instructions "x")',
        [TaskResult("no", "FAILED")],
        {"error.reason": "unexpected_error", "error.message": "no"},
    ),
    Row(
        "the error of a failed answer is kept",
        '(task :instructions "x")',
        [
            TaskResult(
                "",
                "FAILED",
                notes={"error": {"type": "TASK_FAILURE", "reason": "llm_error", "message": "down"}},
            )
        ],
        {"error.reason": "llm_error", "error.message": "down"},
    ),
    Row(
        "a continuation is no answer here",
        '(task :instructions "x")',
        [TaskResult("", "CONTINUATION", notes={"subtask_request": {"name": "f"}})],
        {"error.reason": "subtask_failure", "error.details.subtaskRequest": {"name": "f"}},
    ),
    Row(
        "a failed task is caught",
        '(try (task :instructions "x") (catch e (get-in e (list "notes" "error" "reason"))))',
        [TaskResult("no", "FAILED")],
        {"value": "unexpected_error"},
    ),
]

OUTPUTS = [
    Row(
        "json is parsed",
        '(task :instructions "x" :output "json")',
        ['{"a": 1}'],
        {"parsedContent": {"a": 1}, "content": '{"a": 1}'},
    ),
    Row(
        "a fence is taken off",
        '(task :instructions "x" :output "json")',
        ["```json\n[1]\n```"],
        {"parsedContent": [1]},
    ),
    Row("text stays text", '(task :instructions "x" :output "text")', ['{"a": 1}'], {"parsedContent": None}),
    Row(
        "prose is asked about again",
        '(task :instructions "x" :output "json")',
        ["Here: [1]", "[1]"],
        {"parsedContent": [1], "notes.repaired": True, "prompts": ["x", "x"]},
    ),
    Row(
        "a wrong shape is asked about again",
        '(task :instructions "x" :schema "string[]")',
        ["[1]", '["a"]'],
        {"parsedContent": ["a"]},
    ),
    Row(
        "twice wrong is a failure",
        '(task :instructions "x" :schema "object")',
        ["[1]", "[2]"],
        {
            "error.reason": "output_format_failure",
            "error.content": "[2]",
            "error.notes.parseError.type": "schema_mismatch",
        },
    ),
    Row(
        "no second ask when that is off",
        '(task :instructions "x" :output "json" :disable-reparsing true)',
        ["nope"],
        {"error.notes.parseError.type": "json_syntax", "prompts": ["x"]},
    ),
    Row(
        "the place of a syntax error is told",
        '(task :instructions "x" :output "json" :disable-reparsing true)',
        ["[1,\n x]"],
        {"error.notes.parseError.location": "line 2 column 2"},
    ),
    Row(
        "the place in a wrong shape is told",
        '(task :instructions "x" :schema "number[]" :disable-reparsing true)',
        ['[1, "a"]'],
        {"error.notes.parseError.location": "/1"},
    ),
    Row(
        "NaN is no JSON",
        '(task :instructions "x" :output "json" :disable-reparsing true)',
        ["NaN"],
        {"error.reason": "output_format_failure"},
    ),
    Row(
        "the last of two names counts",
        '(task :instructions "x" :output "json")',
        ['{"a": 1, "a": 2}'],
        {"parsedContent": {"a": 2}},
    ),
    Row(
        "an inline schema",
        '(task :instructions "x" :schema "{\\"required\\": [\\"a\\"]}" :disable-reparsing true)',
        ["{}"],
        {"error.notes.parseError.type": "schema_mismatch"},
    ),
    Row(
        "null is a parsed content",
        '(task :instructions "x" :output "json")',
        ["null"],
        {"parsedContent": None, "content": "null"},
    ),
]

SCRIPTS = [
    Row(
        "a script says its output",
        '(script :argv ("echo" "hi"))',
        [],
        {
            "content": "hi\n",
            "notes.script_stdout": "hi\n",
            "notes.script_stderr": "",
            "notes.script_exit_code": 0,
        },
        scripts=["hi\n"],
    ),
    Row(
        "words are filled",
        '(script :argv ("echo" "{{a}} {{b}}") :inputs ((a "1 2") (b 3)))',
        [],
        {"argv": [["echo", "1 2 3"]]},
        scripts=["x"],
    ),
    Row(
        "inputs are variables",
        '(script :shell "echo $a" :inputs ((a "1") (b 2)))',
        [],
        {"environment": [{"a": "1", "b": "2"}]},
        scripts=["x"],
    ),
    Row(
        "stdin is standard input",
        '(script :argv ("cat") :inputs ((stdin "in") (input "other")))',
        [],
        {"stdin": ["in"], "environment": [{}]},
        scripts=["x"],
    ),
    Row(
        "input is standard input",
        '(script :argv ("cat") :inputs ((input "in")))',
        [],
        {"stdin": ["in"]},
        scripts=["x"],
    ),
    Row(
        "the source of input is standard input",
        '(sequential (task :instructions "x" :output-slot s) (script :argv ("cat") :input-source s))',
        ["said"],
        {"stdin": ["said"]},
        scripts=["x"],
    ),
    Row(
        "the command may be an input",
        "(script :inputs ((command \"echo 'a b' c\")))",
        [],
        {"argv": [["echo", "a b", "c"]]},
        scripts=["x"],
    ),
    Row(
        "the command may be a list",
        '(script :inputs ((command (list "echo" 1))))',
        [],
        {"argv": [["echo", "1"]]},
        scripts=["x"],
    ),
    Row(
        "a non-zero exit fails",
        '(script :argv ("false"))',
        [],
        {
            "error.reason": "execution_halted",
            "error.content": "out",
            "error.details.script_stdout": "out",
            "error.details.script_stderr": "boom\nlast words",
            "error.details.script_exit_code": 3,
            "error.message": "the script exited with code 3: last words",
        },
        scripts=[FAILED_RUN],
    ),
    Row(
        "a timeout is its own reason",
        '(script :argv ("sleep" "9") :timeout 1)',
        [],
        {"error.reason": "execution_timeout", "error.message": "the script took longer than 1 seconds"},
        scripts=[ScriptOutcome("", "", -9, is_timed_out=True)],
    ),
    Row(
        "output may be JSON",
        '(script :argv ("x") :schema "object")',
        [],
        {"parsedContent": {"a": 1}},
        scripts=['{"a": 1}\n'],
    ),
    Row(
        "output that is no JSON is not asked about again",
        '(script :argv ("x") :output "json")',
        [],
        {"error.reason": "output_format_failure"},
        scripts=["nope"],
    ),
]

SEQUENTIALS = [
    Row(
        "the last step is the result",
        '(sequential (task :instructions "a") (task :instructions "b"))',
        ["1", "2"],
        {
            "content": "2",
            "notes.steps": [
                {"step": 0, "title": "a", "status": "COMPLETE"},
                {"step": 1, "title": "b", "status": "COMPLETE"},
            ],
        },
    ),
    Row(
        "a slot is seen by later steps",
        '(sequential (task :instructions "a" :output-slot s) (task :instructions "{{s}}"))',
        ["1", "2"],
        {"prompts": ["a", "1"]},
    ),
    Row(
        "steps and last_output",
        '(sequential (task :instructions "a") (task :instructions "b") (task :instructions "{{steps[0].content}} {{last_output}}"))',
        ["1", "2", "3"],
        {"prompts": ["a", "b", "1 2"]},
    ),
    Row(
        "a slot is not seen outside",
        '(begin (sequential (task :instructions "a" :output-slot s)) s)',
        ["1"],
        {"error.message": "'s' is not bound"},
    ),
    Row(
        "a failing step ends it",
        '(sequential (task :instructions "a") (task :instructions "b") (task :instructions "c"))',
        ["1", TaskResult("no", "FAILED")],
        {
            "error.reason": "subtask_failure",
            "error.details.failedStep": 1,
            "error.details.totalSteps": 3,
            "error.details.partialResults": [{"step": 0, "content": "1", "status": "COMPLETE"}],
            "error.details.subtaskError.message": "no",
            "error.details.nestingDepth": 1,
        },
    ),
    Row(
        "steps may be expressions",
        '(sequential (+ 1 2) (task :instructions "{{last_output}}"))',
        ["x"],
        {"prompts": ["3"]},
    ),
    Row(
        "parallel steps give a list",
        '(sequential :parallel true (task :instructions "a") (task :instructions "b" :output "json"))',
        {"a": "1", "b": 2},
        {"content": '["1", "2"]', "parsedContent": ["1", 2]},
    ),
    Row(
        "parallel steps do not see each other",
        '(sequential :parallel true (task :instructions "a" :output-slot s) (task :instructions "{{s}}"))',
        ["1"],
        {"error.reason": "subtask_failure", "error.details.failedStep": 1},
    ),
    Row(
        "nested sequentials",
        '(sequential (sequential (task :instructions "a" :output-slot s) (task :instructions "b{{s}}")) (task :instructions "c{{last_output}}"))',
        ["1", "2", "3"],
        {"prompts": ["a", "b1", "c2"], "content": "3"},
    ),
    Row(
        "inputs of the whole are seen by steps",
        '(sequential :inputs ((x 7)) (task :instructions "{{x}}"))',
        ["1"],
        {"prompts": ["7"]},
    ),
    Row(
        "its model is the default of its steps",
        '(sequential :model "m:1" (task :instructions "a") (task :instructions "b" :model "m:2"))',
        ["1", "2"],
        {"models": ["m:1", "m:2"]},
    ),
]

REDUCES = [
    Row(
        "a fold over inputs",
        '(reduce-task :initial 0 :inputs ((a 1) (b 2)) :inner (task :instructions "inner {{input}}") :reduction (task :instructions "{{accumulator}}+{{current_result}} of {{original_input}}"))',
        {"inner 1": "10", "inner 2": "20", "0+": "ten", "ten+": "thirty"},
        {"content": "thirty", "prompts": ["inner 1", "inner 2", "0+10 of 1", "ten+20 of 2"]},
    ),
    Row(
        "without inputs it is the initial value",
        '(reduce-task :initial "start" :inner (task :instructions "x") :reduction (task :instructions "y"))',
        [],
        {"content": "start", "prompts": []},
    ),
    Row(
        "the accumulator is the parsed content",
        "(reduce-task :initial (list) :inputs ((a 1) (b 2)) :inner (identity input) :reduction (append accumulator (list current_result)))",
        [],
        {"parsedContent": [1, 2]},
    ),
    Row(
        "the inner task sees the input by its name",
        '(reduce-task :inputs ((a 1)) :inner (task :instructions "{{a}}") :reduction (task :instructions "{{current_result}}"))',
        ["x", "y"],
        {"prompts": ["1", "x"]},
    ),
    Row(
        "outer names are not inherited",
        '(let ((z 1)) (reduce-task :inputs ((a 1)) :inner (task :instructions "{{z}}") :reduction (task :instructions "r")))',
        [],
        {"error.details.subtaskError.message": "name 'z' is not bound"},
    ),
    Row(
        "a failing inner task",
        '(reduce-task :inputs ((a 1) (b 2)) :inner (task :instructions "i{{input}}") :reduction (task :instructions "r"))',
        {"i1": "ok", "i2": TaskResult("no", "FAILED")},
        {"error.reason": "subtask_failure", "error.details.failedStep": 1, "error.details.totalSteps": 2},
    ),
    Row(
        "a failing reduction",
        '(reduce-task :inputs ((a 1) (b 2)) :inner (identity input) :reduction (task :instructions "r{{current_result}}"))',
        {"r1": "ok", "r2": TaskResult("no", "FAILED")},
        {
            "error.details.failedStep": 1,
            "error.details.partialResults": [{"step": 0, "content": "ok", "status": "COMPLETE"}],
        },
    ),
]

LOOPS = [
    Row(
        "it ends on success",
        '(director-evaluator-loop :description "q" :director (task :instructions "{{user_query}} {{current_iteration}} {{evaluation_feedback}}") :evaluator (task :instructions "judge {{director_result}}" :output "json"))',
        {"judge": [BAD, GOOD], "q": ["d1", "d2"]},
        {
            "content": "d2",
            "notes.iterations": 2,
            "notes.terminated_by": "success",
            "notes.evaluation": GOOD,
            "prompts": ["q 1 ", "judge d1", "q 2 shorter", "judge d2"],
        },
    ),
    Row(
        "it ends at its limit",
        '(director-evaluator-loop :max-iterations 2 :director (task :instructions "d") :evaluator (task :instructions "j" :output "json"))',
        {"j": BAD, "d": "x"},
        {"notes.terminated_by": "max_iterations", "notes.iterations": 2},
    ),
    Row(
        "its parts know the limit",
        '(director-evaluator-loop :max-iterations 2 :director (task :instructions "d {{current_iteration}} of {{max_iterations}}") :evaluator (task :instructions "j" :output "json"))',
        {"j": BAD, "d": "x"},
        {"prompts": ["d 1 of 2", "j", "d 2 of 2", "j"]},
    ),
    Row(
        "the condition knows the default limit",
        '(director-evaluator-loop :condition "current_iteration == max_iterations - 1" :director (task :instructions "d") :evaluator (task :instructions "j" :output "json"))',
        {"j": BAD, "d": "x"},
        {"notes.terminated_by": "condition", "notes.iterations": 4},
    ),
    Row(
        "five is the default limit",
        '(director-evaluator-loop :director (task :instructions "d") :evaluator (task :instructions "j" :output "json"))',
        {"j": BAD, "d": "x"},
        {"notes.iterations": 5},
    ),
    Row(
        "it ends on its condition",
        '(director-evaluator-loop :condition "current_iteration == 3" :director (task :instructions "d") :evaluator (task :instructions "j" :output "json"))',
        {"j": BAD, "d": "x"},
        {"notes.terminated_by": "condition", "notes.iterations": 3},
    ),
    Row(
        "the condition sees the evaluation",
        '(director-evaluator-loop :condition "evaluation.score > 3" :director (task :instructions "d") :evaluator (task :instructions "j" :output "json"))',
        {"j": {"success": False, "score": 4}, "d": "x"},
        {"notes.terminated_by": "condition", "notes.iterations": 1},
    ),
    Row(
        "a script runs between",
        '(director-evaluator-loop :director (task :instructions "d") :script (script :argv ("sh")) :evaluator (task :instructions "{{script_output}} {{script_errors}} {{script_exit_code}}" :output "json"))',
        {"out": GOOD, "d": "code"},
        {"stdin": ["code"], "prompts": ["d", "out boom\nlast words 3"], "notes.terminated_by": "success"},
        scripts=[FAILED_RUN],
    ),
    Row(
        "the script of a loop has a slot and an output format",
        '(director-evaluator-loop :max-iterations 2 :director (task :instructions "d {{run}}") :script (script :argv ("sh") :output "json" :output-slot run) :evaluator (task :instructions "j {{run.n}}" :output "json"))',
        {"j": BAD, "d": "code"},
        {"prompts": ["d null", "j 1", 'd {"n": 1}', "j 2"]},
        scripts=['{"n": 1}', '{"n": 2}'],
    ),
    Row(
        "the slot of a script that failed has the failed result",
        '(director-evaluator-loop :director (task :instructions "d") :script (script :argv ("sh") :output-slot run) :evaluator (task :instructions "j {{run.status}} {{run.notes.error.reason}}" :output "json"))',
        {"j": GOOD, "d": "code"},
        {"prompts": ["d", "j FAILED execution_halted"]},
        scripts=[FAILED_RUN],
    ),
    Row(
        "a script of a loop that does not say JSON is for the evaluator to judge",
        '(director-evaluator-loop :director (task :instructions "d") :script (script :argv ("sh") :output "json" :output-slot run) :evaluator (task :instructions "j {{run.status}} {{script_errors}}" :output "json"))',
        {"j": GOOD, "d": "code"},
        {
            "prompts": [
                "d",
                "j FAILED the output does not match its format: JSON is malformed: expecting value (at line 1 column 1)",
            ]
        },
        scripts=["no"],
    ),
    Row(
        "the result says how well it went",
        '(director-evaluator-loop :director (task :instructions "d") :evaluator (task :instructions "j" :output "json"))',
        {"j": {"success": True, "successScore": 0.75}, "d": "x"},
        {"notes.successScore": 0.75},
    ),
    Row(
        "without a score success is all or nothing",
        '(director-evaluator-loop :max-iterations 1 :director (task :instructions "d") :evaluator (task :instructions "j" :output "json"))',
        {"j": {"success": False, "successScore": 7}, "d": "x"},
        {"notes.successScore": 0.0},
    ),
    Row(
        "a task of subtype evaluator has its judgement in its notes",
        '(task :subtype "evaluator" :instructions "j" :output "json")',
        {"j": {"success": True, "feedback": "good", "details": {"violations": []}}},
        {
            "notes.success": True,
            "notes.feedback": "good",
            "notes.details": {"violations": []},
            "notes.successScore": 1.0,
        },
    ),
    Row(
        "evaluation by notes",
        '(director-evaluator-loop :director (task :instructions "d") :evaluator (task :instructions "j"))',
        {"j": TaskResult("fine", "COMPLETE", notes={"success": True, "feedback": "f"}), "d": "x"},
        {"notes.terminated_by": "success"},
    ),
    Row(
        "evaluation by JSON text",
        '(director-evaluator-loop :director (task :instructions "d") :evaluator (task :instructions "j"))',
        {"j": GOOD, "d": "x"},
        {"notes.terminated_by": "success"},
    ),
    Row(
        "an evaluation without success",
        '(director-evaluator-loop :director (task :instructions "d") :evaluator (task :instructions "j" :output "json"))',
        {"j": {"success": "yes"}, "d": "x"},
        {"error.reason": "output_format_failure", "error.details.iteration": 1},
    ),
    Row(
        "a failing evaluator",
        '(director-evaluator-loop :director (task :instructions "d") :evaluator (task :instructions "j"))',
        {"j": TaskResult("no", "FAILED"), "d": "x"},
        {
            "error.reason": "subtask_failure",
            "error.details.iteration": 1,
            "error.details.part": "evaluator",
            "error.details.subtaskError.message": "no",
        },
    ),
    Row(
        "the evaluator is chosen by criteria",
        '(deftask style (director_result) :subtype "evaluator" :description "judge style" :instructions "style {{director_result}}" :output "json") (deftask facts (director_result) :subtype "evaluator" :description "check the facts" :instructions "facts {{director_result}}" :output "json") (director-evaluator-loop :criteria "check facts" :director (task :instructions "d"))',
        {"facts": GOOD, "d": "x"},
        {"prompts": ["d", "facts x"]},
    ),
]

JUDGE = '(deftask judge (director_result) :subtype "evaluator" :description "Judge style" :instructions "style {{director_result}}" :output "json") '

CONDS = [
    Row(
        "the first case that holds",
        '(sequential (task :instructions "a") (task-cond ("output.valid == true" (task :instructions "yes")) ("true" (task :instructions "no"))))',
        {"a": {"valid": True}, "yes": "Y"},
        {"content": "Y", "notes.matched_case": 0},
    ),
    Row(
        "a later case",
        '(sequential (task :instructions "a") (task-cond ("output.errors > 9" (task :instructions "x")) ("output.errors > 0" (task :instructions "e"))))',
        {"a": {"errors": 2}, "e": "E"},
        {"content": "E", "notes.matched_case": 1},
    ),
    Row(
        "no case",
        '(sequential (task :instructions "a") (task-cond ("output.valid" (task :instructions "x"))))',
        {"a": {"valid": False}},
        {"content": "", "status": "COMPLETE", "notes.matched_case": None},
    ),
    Row(
        "criteria have an evaluator judge the output, whatever it is",
        JUDGE
        + '(sequential (task :instructions "a") (task-cond :criteria "good style" ("evaluation.success" (task :instructions "yes")) ("size(output) == 5" (task :instructions "no: {{evaluation.feedback}}"))))',
        {"a": "prose", "style": BAD, "no": "N"},
        {
            "content": "N",
            "notes.matched_case": 1,
            "notes.evaluation": BAD,
            "notes.successScore": 0.0,
            "prompts": ["a", "style prose", "no: shorter"],
        },
    ),
    Row(
        "criteria that match no evaluator",
        '(sequential (task :instructions "a") (task-cond :criteria "good style" ("true" (task :instructions "x"))))',
        ["prose"],
        {"error.details.subtaskError.reason": "template_not_found"},
    ),
    Row(
        "output that is no JSON",
        '(sequential (task :instructions "a") (task-cond ("true" (task :instructions "x"))))',
        ["prose"],
        {"error.details.subtaskError.reason": "output_format_failure"},
    ),
    Row(
        "without an output it is an empty object",
        '(task-cond ("size(output) == 0" (task :instructions "x")))',
        ["X"],
        {"content": "X"},
    ),
    Row(
        "a missing field is an error",
        '(task-cond ("output.valid" (task :instructions "x")))',
        [],
        {"error.reason": "input_validation_failure"},
    ),
]

REVIEW = (
    '(deftask review (code (style "plain") (depth integer 3)) :instructions "{{code}} {{style}} {{depth}}")\n'
)
CALLS = [
    Row("arguments by position", REVIEW + '(review "c" "s" 1)', ["x"], {"prompts": ["c s 1"]}),
    Row(
        "arguments by keyword, and defaults",
        REVIEW + '(review :code "c" :depth 2)',
        ["x"],
        {"prompts": ["c plain 2"]},
    ),
    Row("both", REVIEW + '(review "c" :style "s")', ["x"], {"prompts": ["c s 3"]}),
    Row("a missing argument", REVIEW + "(review)", [], {"error.message": "review needs a value for 'code'"}),
    Row(
        "too many arguments",
        REVIEW + '(review "c" "s" 1 2)',
        [],
        {"error.message": "review takes 3 arguments; 4 were given"},
    ),
    Row(
        "an unknown keyword",
        REVIEW + '(review "c" :stile "s")',
        [],
        {"error.message": "review has no parameter 'stile'; did you mean 'style'?"},
    ),
    Row(
        "a wrong type",
        REVIEW + '(review "c" :depth "deep")',
        [],
        {"error.type": "VALIDATION_ERROR", "error.path": "depth"},
    ),
    Row(
        "given twice",
        REVIEW + '(review "c" :code "d")',
        [],
        {"error.message": "review was given 'code' twice"},
    ),
    Row("the model of a call", REVIEW + '(review "c" :model "m:1")', ["x"], {"models": ["m:1"]}),
    Row(
        "a template does not see its caller",
        '(deftask f () :instructions "{{x}}") (let ((x 1)) (f))',
        [],
        {"error.message": "name 'x' is not bound"},
    ),
    Row("a body may be any expression", "(template inc (n) (+ n 1)) (inc 2)", [], {"value": 3}),
    Row(
        "returns is checked",
        '(template f () :returns "object" (task :instructions "a")) (f)',
        ["[1]"],
        {"error.type": "INVALID_OUTPUT", "error.content": "[1]"},
    ),
    Row(
        "what returns says is parsed",
        '(template f () :returns "object" (task :instructions "a")) (f)',
        ['{"a": 1}'],
        {"parsedContent": {"a": 1}},
    ),
    Row(
        "returns of a value",
        '(template f () :returns "number" "text") (f)',
        [],
        {"error.type": "INVALID_OUTPUT"},
    ),
    Row(
        "a reference passes its inputs",
        REVIEW + '(task :ref "review" :inputs ((code "c") (depth 1)))',
        ["x"],
        {"prompts": ["c plain 1"]},
    ),
    Row(
        "a reference replaces settings",
        '(deftask f (a) :instructions "x {{a}}" :model "m:1") (task :ref "f" :model "m:2" :instructions "y {{a}}" :inputs ((a 1)))',
        ["r"],
        {"prompts": ["y 1"], "models": ["m:2"]},
    ),
    Row("an unknown reference", '(task :ref "reviw")', [], {"error.reason": "template_not_found"}),
    Row(
        "a reference binds its slot",
        REVIEW
        + '(sequential (task :ref "review" :inputs ((code "c")) :output-slot r) (task :instructions "{{r}}"))',
        ["1", "2"],
        {"prompts": ["c plain 3", "1"]},
    ),
    Row(
        "a template maps",
        '(deftask up (w) :instructions "up {{w}}") (map content (map up (list "a" "b")))',
        {"up a": "A", "up b": "B"},
        {"value": ["A", "B"]},
    ),
    Row(
        "recursion ends at a limit",
        "(template f (n) (f (+ n 1))) (f 0)",
        [],
        {"error.type": "RESOURCE_EXHAUSTION", "error.resource": "depth"},
    ),
    Row(
        "recursion through a prompt ends too",
        '(deftask f (n) :instructions "{{f(n)}}") (f 0)',
        [],
        {"error.type": "RESOURCE_EXHAUSTION", "error.resource": "depth"},
    ),
    Row(
        "a tool is called",
        '(system:read "a" :lines 2)',
        [],
        {"value": "a2"},
        tools={"system:read": lambda path, lines: f"{path}{lines}"},
    ),
    Row(
        "an unknown tool",
        '(system:raed "a")',
        [],
        {"error.message": "there is no tool 'system:raed'; did you mean 'system:read'?"},
        tools={"system:read": str},
    ),
]

ROWS = [*ATOMIC, *OUTPUTS, *SCRIPTS, *SEQUENTIALS, *REDUCES, *LOOPS, *CONDS, *CALLS]
