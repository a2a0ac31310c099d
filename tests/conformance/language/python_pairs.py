"""The programs of `pairs`, built in Python; by the names of their files."""

from typing import Any

import weft
from weft import build as b
from weft.language.ast import Program


@weft.task
def analyze_data(dataset, config):  # type: ignore[no-untyped-def]
    return b.task(description="Analyze {{dataset}} using {{config}}")


PYTHON: dict[str, Program] = {}


def pair(name: str, *forms: Any) -> None:
    """Keep a program."""
    PYTHON[name] = b.program(*forms)


pair("01-description", b.task(description="Say hello"))
pair(
    "02-instructions",
    b.task(
        "Analyze the code.",
        subtype="standard",
        description="Readability",
        system="You are an expert.",
        model="local:auto",
        criteria="validate, log",
    ),
)
pair("03-text-input", b.task("Analyze {{code}}", inputs={"code": "The code to analyze"}))
pair("04-json-input", b.task("Count to {{n}}", inputs={"n": 3}))
pair(
    "05-nested-inputs",
    b.task(
        "Join {{a}} and {{b}}",
        inputs={"a": b.task(description="First"), "b": b.task(description="Second")},
    ),
)
pair("06-json-output", b.task(description="List files", output="json", schema=list[str]))
pair("07-inline-schema", b.task(description="Judge", output="json", schema={"required": ["success"]}))
pair(
    "08-bad-output",
    b.task(description="List files", output="json", schema=float, disable_reparsing=True),
)
pair(
    "09-context",
    b.task(
        description="Look",
        context={"inherit": "none", "accumulate": True, "format": "full", "fresh": "enabled"},
    ),
)
pair(
    "10-relevance",
    b.task(
        description="Look at {{a}}",
        context={"inherit": "subset"},
        inputs={"a": "one", "b": "two"},
        relevance={"a": True, "b": False},
        assembly={"primary": "code"},
    ),
)
pair("11-files", b.task(description="Read", files=["a.py", "b.py"]))
pair("12-files-by-description", b.task(description="Read", files={"description": "about cats"}))
pair(
    "13-history-and-tools",
    b.task(
        description="Go on",
        history={"use": True, "turns": 3, "record": False},
        tools=["system:read_files", "system:write"],
        timeout=30,
        max_depth=3,
        reuse=False,
    ),
)
pair("14-script-argv", b.script(argv=["echo", "{{word}}"], inputs={"word": "hello"}))
pair(
    "15-script-shell",
    b.script(  # noqa: S604 - a shell is what the program asks for
        shell='echo "$word" | wc -c', inputs={"word": "hello", "stdin": "in"}, timeout=5
    ),
)
pair("16-script-command-input", b.script(description="Run it", inputs={"command": "echo hello"}))
pair(
    "17-sequential",
    b.sequential(
        b.task(description="First", output_slot="first_out"),
        b.task(description="Second after {{first_out}}"),
        description="Two steps",
    ),
)
pair(
    "18-sequential-from",
    b.sequential(
        b.task(description="Data", output_slot="found", schema="object"),
        b.task(
            description="{{x}} of {{steps[0].content}} after {{last_output}}",
            inputs={"x": b.var("found.errors")},
        ),
    ),
)
pair(
    "19-sequential-full-output",
    b.sequential(
        b.task(description="One"),
        b.task(description="Two"),
        b.task(description="Three"),
        context={"inherit": "none", "accumulate": True, "format": "full_output"},
    ),
)
pair(
    "20-input-source",
    b.sequential(
        b.task(description="Write code", output_slot="program"),
        b.script(input_source="program", argv=["python", "-"]),
    ),
)
pair(
    "21-parallel",
    b.sequential(
        *(b.task(description="Process {{data}}", inputs={"data": data}) for data in ("data1", "data2")),
        parallel=True,
    ),
)
pair("22-failing-step", b.sequential(b.task(description="Fine"), b.script(argv=["fail"])))
pair(
    "23-cond",
    b.sequential(
        b.task(description="Check", output="json", schema="object"),
        b.task_cond(
            ("output.errors > 9", b.task(description="Many")),
            ("output.valid == true", b.task(subtype="success_handler", description="Handle success")),
        ),
    ),
)
pair("24-cond-no-match", b.task_cond(("has(output.valid)", b.task(description="Never"))))
pair(
    "25-reduce",
    b.reduce_task(
        initial="nothing",
        inputs={"a": "one", "b": "two"},
        inner=b.task(description="Look at {{input}}"),
        reduction=b.task(description="Join {{accumulator}} and {{current_result}} from {{original_input}}"),
    ),
)
pair(
    "26-loop",
    b.director_evaluator_loop(
        description="Improve it",
        max_iterations=3,
        director=b.task(description="{{user_query}}: round {{current_iteration}}"),
        evaluator=b.task(description="Judge {{director_result}}", output="json", schema="object"),
    ),
)
pair(
    "27-loop-with-script",
    b.director_evaluator_loop(
        description="Program",
        director=b.task(description="Write"),
        script=b.script(argv=["python", "-"], timeout=10, inputs={"code": b.var("director_result")}),
        evaluator=b.task(description="Judge {{script_output}} and {{script_exit_code}}", output="json"),
        condition="evaluation.errors == 2",
    ),
)
pair("28-template-call", analyze_data, analyze_data("weather_data", config="standard"))
pair(
    "29-template-defaults",
    b.deftask("review", ["code", b.parameter("depth", int, 3)], description="Review {{code}} {{depth}} deep"),
    b.call("review", "x"),
)
pair(
    "30-template-returns",
    b.deftask(
        "get_file_info",
        ["filepath"],
        returns="object",
        description="Get metadata for {{filepath}}",
        output="json",
        schema="object",
    ),
    b.sequential(
        b.ref("get_file_info", inputs={"filepath": "a.py"}, output_slot="facts"),
        b.task(description="{{facts.feedback}}"),
    ),
)
pair(
    "31-call-in-placeholder",
    b.deftask("metrics", ["data", "method"], description="Measure {{data}} by {{method}}"),
    b.task(description='Results: {{metrics("all", method="advanced")}}'),
)
pair(
    "32-reference-with-settings",
    b.deftask("review", ["code"], description="Review {{code}}", model="local:small"),
    b.ref("review", model="local:large", inputs={"code": "x"}),
)
pair(
    "33-cond-with-criteria",
    b.deftask(
        "judge",
        ["director_result"],
        subtype="evaluator",
        description="Judge style: {{director_result}}",
        output="json",
        schema="object",
    ),
    b.sequential(
        b.task(description="Write"),
        b.task_cond(
            ("evaluation.success", b.task(description="Publish")),
            ("true", b.task(description="Repair: {{evaluation.feedback}}")),
            criteria="good style",
        ),
    ),
)
pair(
    "34-namespace",
    b.deftask("user:generate-plan", ["goal"], description="Plan {{goal}}"),
    b.template(
        "user:twice",
        ["goal"],
        b.sequential(
            b.call("user:generate-plan", b.var("goal")),
            b.ref("user:generate-plan", inputs={"goal": "again"}),
        ),
    ),
    b.task(description='Plans: {{user:generate-plan("tea")}}'),
    b.call("user:twice", goal="cake"),
)
