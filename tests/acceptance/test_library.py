"""`weft library`, and registered templates in runs and flows, as a person uses them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Ran, started, weft
from tests.model_server import ModelServer, hangs, says, write_settings

KEY = "sk-test-0123456789abcdef"

LIBRARY = """
(deftask greet ((who string) (tone "warm"))
  :description "Greets somebody." :instructions "Greet {{who}}, {{tone}}.")
(template greet_both ((a string) (b string)) (list (greet a) (greet b)))
(define (helper x) x)
"""

SCHEMA = '{"type": "object", "required": ["ok"]}'

JUDGE = """<template name="judge" params="text">
  <task><instructions>Judge {{text}}</instructions><output_format type="json" schema="verdict.json"/></task>
</template>"""

FLOW = [
    {"name": "all", "schemas": {"method": "aggregate_results"}, "dependencies": ["greetings"]},
    {
        "name": "names",
        "parent_id": "all",
        "schemas": {"method": "command"},
        "inputs": {"argv": ["printf", "Ada"]},
    },
    {
        "name": "greeting",
        "parent_id": "all",
        "schemas": {"method": "greet"},
        "dependencies": ["names"],
        "params": {"input_mappings": {"who": "names.stdout"}},
    },
    {
        "name": "greetings",
        "parent_id": "all",
        "schemas": {"method": "template"},
        "inputs": {"a": "Bob", "b": "Cyd"},
        "dependencies": ["greeting"],
        "params": {"template": "greet_both"},
    },
]


@pytest.fixture
def project(tmp_path: Path, model_server: ModelServer) -> Path:
    write_settings(tmp_path, model_server)
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "greet.sexp").write_text(LIBRARY)
    (tmp_path / "flow.json").write_text(json.dumps(FLOW))
    return tmp_path


def run(project: Path, *arguments: str | Path, **more: Any) -> Ran:
    return weft(*arguments, db=str(project / "weft.db"), cwd=project, SERVED_KEY=KEY, **more)


def asked(server: ModelServer) -> list[str]:
    return [request.body["messages"][-1]["content"] for request in server.requests]


def test_templates_are_registered_listed_shown_and_removed(project: Path) -> None:
    added = run(project, "library", "add", "library")

    assert (added.code, added.out) == (0, "registered greet@1\nregistered greet_both@1\n"), added.err
    assert "ignored 1 form" in added.err
    (project / "library" / "greet.sexp").write_text(LIBRARY.replace("warm", "short"))
    again = run(project, "library", "add", "library", "--json").json
    assert [(one["name"], one["version"], one["is_new"]) for one in again["templates"]] == [
        ("greet", 2, True),
        ("greet_both", 1, False),
    ]
    assert re.search(r"greet +2 +- +atomic +who \[tone\]", run(project, "library", "list").out)
    shown = run(project, "library", "show", "greet", "--json").json
    assert (shown["version"], len(shown["versions"])) == (2, 2)
    assert shown["input_schema"]["properties"]["tone"] == {"default": "short"}
    refused = run(project, "library", "remove", "greet")
    assert (refused.code, "used by greet_both" in refused.err) == (2, True)
    assert run(project, "library", "remove", "greet", "--force", "--json").json["version"] == 2
    assert "it was removed; 'greet@2'" in run(project, "library", "show", "greet").err
    assert '"warm"' in run(project, "library", "show", "greet@1").out


def test_what_is_wrong_is_told_at_once_and_nothing_is_registered(project: Path) -> None:
    (project / "library" / "greet.sexp").write_text(f"{LIBRARY} (template bad (x) (gret x))")
    (project / "library" / "more.sexp").write_text(
        '(template http (x) x) (template worse (x) (greet x :tome "k"))'
    )
    (project / "library" / "judge.xml").write_text(JUDGE)

    unread = run(project, "library", "add", "library")
    (project / "library" / "verdict.json").write_text(SCHEMA)
    refused = run(project, "library", "add", "library")

    assert (unread.code, refused.code) == (2, 2)
    assert "schema file 'verdict.json'" in unread.err
    for said in ("gret", "name of an executor", "tome"):
        assert said in refused.err
    assert run(project, "library", "list", "--json").json == {"templates": []}


def test_a_schema_file_is_registered_with_the_template(project: Path) -> None:
    (project / "judge.xml").write_text(JUDGE)
    (project / "verdict.json").write_text(SCHEMA)
    run(project, "library", "add", "judge.xml")
    (project / "verdict.json").write_text('{"type": "array"}')

    assert run(project, "library", "add", "judge.xml").out == "registered judge@2\n"
    assert '"required' in run(project, "library", "show", "judge@1", "--json").json["text"].replace("\\", "")


def test_a_template_is_run_by_name_with_arguments(project: Path, model_server: ModelServer) -> None:
    model_server.always(says("Hello."))
    run(project, "library", "add", "library")

    ran = run(project, "run", "greet", "who=Ada", "tone=brief", "--json")
    refused = run(project, "run", "greet@1", "tome=brief", "tone=x", "--json")
    unknown = run(project, "run", "gret", "who=Ada")

    assert (ran.code, ran.json["content"]) == (0, "Hello."), ran.err
    assert asked(model_server) == ["Greet Ada, brief."]
    record = run(project, "tasks", "show", ran.json["root_id"], "--json").json
    assert (record["name"], record["params"]["program"]["templates"]) == ("greet", {"greet": 1})
    assert (refused.code, refused.json["error"]["code"]) == (2, "invalid-tasks")
    assert len(refused.json["error"]["problems"]) == 2
    assert unknown.code == 3
    assert "did you mean 'greet'?" in unknown.err


def test_a_program_uses_what_is_registered_and_check_knows_it_when_asked(
    project: Path, model_server: ModelServer
) -> None:
    model_server.always(says("Hello."))
    (project / "main.sexp").write_text('(greet_both "Ada" name)')
    run(project, "library", "add", "library")

    ran = run(project, "run", "main.sexp", "name=Bob")

    assert (ran.code, json.loads(ran.out)) == (0, ["Hello.", "Hello."]), ran.err
    (project / "call.sexp").write_text('(greet_both "Ada" "Bob")')
    assert run(project, "check", "call.sexp").code == 2
    assert run(project, "check", "call.sexp", "--registered").code == 0
    assert run(project, "check", "library/greet.sexp", "--registered").code == 0


def test_templates_are_among_the_executors(project: Path) -> None:
    run(project, "library", "add", "library")

    listed = run(project, "executors").out
    shown = run(project, "executors", "greet", "--json").json

    assert re.search(r"greet +local +Greets somebody\.", listed)
    assert shown["input_schema"]["required"] == ["who"]
    assert shown["source"] == "library, version 1"


def test_a_mixed_flow_that_was_killed_goes_on_with_the_definitions_it_began_with(
    project: Path, model_server: ModelServer
) -> None:
    run(project, "library", "add", "library")
    model_server.script(says("Hello Ada."), says("Hello Bob."), hangs())

    with started(
        "flow", "run", "flow.json", db=str(project / "weft.db"), cwd=project, SERVED_KEY=KEY
    ) as process:
        model_server.wait_until(lambda: len(model_server.requests) == 3)
        process.kill()
        process.wait()
    (project / "library" / "greet.sexp").write_text(LIBRARY.replace("warm", "cold"))
    run(project, "library", "add", "library")
    model_server.always(says("Hello."))
    root_id = run(project, "tasks", "list", "--json", "--roots").json["tasks"][0]["id"]
    resumed = run(project, "flow", "run", root_id, "--json")

    assert (resumed.code, resumed.json["status"]) == (0, "completed"), resumed.err
    assert asked(model_server) == [
        "Greet Ada, warm.",
        "Greet Bob, warm.",
        "Greet Cyd, warm.",
        "Greet Cyd, warm.",
    ]


def test_a_flow_with_wrong_arguments_is_refused(project: Path) -> None:
    run(project, "library", "add", "library")
    wrong = {"name": "one", "schemas": {"method": "greet"}, "inputs": {"tone": "x", "tome": "y"}}

    ran = run(project, "flow", "submit", "-", stdin=json.dumps([wrong]))

    assert ran.code == 2
    assert "'who' is a required property" in ran.err.replace('"', "'")
    assert "tome" in ran.err


def test_a_template_with_a_namespace_runs_by_name_by_version_in_programs_and_in_flows(
    project: Path, model_server: ModelServer
) -> None:
    model_server.always(says("Done."))
    (project / "library" / "greet.sexp").write_text(
        '(deftask user:generate-plan ((goal string)) :instructions "Plan {{goal}}.")'
        ' (template user:both (a) (list (user:generate-plan a) (user:generate-plan "more")))'
    )
    (project / "uses.sexp").write_text('(user:both "tea")')
    flow = {"name": "plan", "schemas": {"method": "user:generate-plan"}, "inputs": {"goal": "flow"}}
    (project / "flow.json").write_text(json.dumps([flow]))

    added = run(project, "library", "add", "library")

    assert (added.code, added.out) == (0, "registered user:generate-plan@1\nregistered user:both@1\n")
    by_name = run(project, "run", "user:generate-plan", "goal=a")
    by_version = run(project, "run", "user:generate-plan@1", "goal=b")
    assert (by_name.out, by_version.out) == ("Done.\n", "Done.\n"), by_name.err + by_version.err
    assert run(project, "run", "uses.sexp").code == 0
    assert run(project, "flow", "run", "flow.json").code == 0
    assert asked(model_server) == [f"Plan {goal}." for goal in ("a", "b", "tea", "more", "flow")]
    assert "user:both" in run(project, "library", "remove", "user:generate-plan").err
    misspelt = run(project, "run", "user:generate-plam", "goal=a")
    assert "did you mean 'user:generate-plan'" in misspelt.err
    (project / "uses.sexp").write_text(
        '(deftask user:generate-plan (goal) :instructions "{{goal}}") (user:generate-plam "tea")'
    )
    assert "did you mean 'user:generate-plan'" in run(project, "check", "uses.sexp").out
