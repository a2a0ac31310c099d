"""Which template a request for a subtask means."""

from typing import Any

import pytest

from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure
from weft.evaluator.subtasks.request import MAX_LISTED_TEMPLATES, BadRequest, read_request, tool_definition
from weft.evaluator.subtasks.template_choice import choose_template
from weft.language.ast import Template
from weft.language.library import TaskLibrary, definition_of
from weft.language.reading import read_text

PROGRAM = """
(deftask review (code) :description "Review source code for mistakes" :instructions "Review {{code}}")
(deftask judge (code) :description "Say whether code is right" :subtype "evaluator" :instructions "{{code}}")
(deftask summarise (text) :description "Summarise a text" :instructions "{{text}}")
(deftask digest (text (words 5)) :description "Summarise a text" :instructions "{{text}} {{words}}")
(deftask open-ended () :description "Ask for anything" :inputs ((note "none")) :instructions "{{note}}")
(template run-tests () (script :description "Run the tests" :argv ("true")))
(template steps (text) (sequential (summarise text)))
"""


def library_of(program: str = PROGRAM) -> TaskLibrary:
    library = TaskLibrary()
    for form in read_text(program, "<text>").forms:
        assert isinstance(form, Template)
        library.register_task(definition_of(form))
    return library


def choice(**request: Any) -> str:
    return choose_template(library_of(), read_request({"type": "atomic", "inputs": {}, **request})).name


CODE, TEXT = {"code": "x"}, {"text": "x"}


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        ({"name": "steps", "description": "review code"}, "steps"),
        ({"description": "Please review this source code", "inputs": CODE}, "review"),
        ({"description": "Is it right?", "inputs": CODE}, "judge"),
        ({"description": "anything", "subtype": "evaluator", "inputs": CODE}, "judge"),
        ({"description": "summarise the text", "inputs": TEXT}, "digest"),
        ({"description": "summarise the text", "inputs": {"text": "x", "words": 3}}, "digest"),
        ({"description": "the text", "template_hints": ["summarise"], "inputs": TEXT}, "summarise"),
        ({"description": "do it", "template_hints": ["mistakes"], "inputs": CODE}, "review"),
        ({"description": "run my tests", "type": "script"}, "run-tests"),
        ({"description": "ask somebody", "inputs": {"note": "x"}}, "open-ended"),
    ],
)
def test_a_name_wins_and_else_kind_inputs_hints_and_words_decide(request_: dict[str, Any], name: str) -> None:
    assert choice(**request_) == name


@pytest.mark.parametrize(
    ("request_", "message", "candidates"),
    [
        ({"name": "reveiw"}, "there is no template 'reveiw'; did you mean 'review'?", 7),
        ({"description": "summarise", "subtype": "director"}, "of that kind (atomic, director)", 7),
        ({"description": "review", "inputs": {"other": 1}}, "takes these inputs: 'other'", 5),
        ({"description": "review", "inputs": {}, "type": "reduce"}, "of that kind (reduce)", 7),
        (
            {"description": "the task is to do it for me", "inputs": CODE},
            "no template matches the description",
            5,
        ),
    ],
)
def test_what_fits_nothing_is_refused_with_the_candidates(
    request_: dict[str, Any], message: str, candidates: int
) -> None:
    with pytest.raises(TaskFailed) as refused:
        choice(**request_)

    error = refused.value.error
    assert isinstance(error, TaskFailure)
    assert error.reason == "template_not_found"
    assert message in error.message
    assert error.details is not None
    assert len(error.details["candidates"]) == candidates


@pytest.mark.parametrize(
    ("request_", "problems"),
    [
        ({}, ['"type" is a required', '"inputs" is a required', "a name or a description"]),
        ({"type": "atomic", "inputs": {}, "name": ""}, ["/name"]),
        ({"type": "atomic", "inputs": {}, "name": "f", "file_paths": "a"}, ["/file_paths"]),
        ({"type": "atomic", "inputs": {}, "name": "f", "max_depth": 1.5}, ["/max_depth"]),
        ({"type": "atomic", "inputs": {}, "name": "f", "history_config": {"turns": 1}}, ["/history_config"]),
        (
            {"type": "x", "inputs": 1, "name": "f", "context_management": {"fresh_context": "on"}, "y": 2},
            ["y", "/context_management/fresh_context", "/inputs", "/type"],
        ),
    ],
)
def test_all_that_is_wrong_with_a_request_is_told(request_: dict[str, Any], problems: list[str]) -> None:
    with pytest.raises(BadRequest) as bad:
        read_request(request_)

    assert len(bad.value.problems) == len(problems)
    for part in problems:
        assert any(part in problem for problem in bad.value.problems), part


def test_a_whole_request_is_read() -> None:
    request = read_request(
        {
            "type": "atomic",
            "name": "f",
            "description": "d",
            "inputs": {"a": [1, {"b": None}]},
            "subtype": "s",
            "template_hints": ["h"],
            "context_management": {"inherit_context": "subset", "accumulate_data": True},
            "max_depth": 3.0,
            "file_paths": ["a.py"],
            "history_config": {"use_session_history": False, "history_turns_to_include": 2},
        }
    )

    assert (request.max_depth, request.file_paths, request.template_hints) == (3, ("a.py",), ("h",))
    assert request.context_management.inherit_context == "subset"
    assert request.history_config is not None
    assert request.history_config.history_turns_to_include == 2


def test_a_model_is_told_which_templates_there_are() -> None:
    told = tool_definition(library_of())

    assert "- digest (atomic; inputs: text, words (optional)): Summarise a text" in told.description
    assert "- judge (atomic, evaluator; inputs: code)" in told.description
    assert told.input_schema["properties"]["name"]["enum"] == sorted(library_of().tasks)


def test_of_a_large_library_a_model_is_told_a_part() -> None:
    program = "\n".join(f'(deftask t{n:03} () :instructions "x")' for n in range(MAX_LISTED_TEMPLATES + 5))

    told = tool_definition(library_of(program))

    assert "and 5 more" in told.description
    assert "enum" not in told.input_schema["properties"]["name"]


def test_the_library_finds_templates_by_type_and_subtype() -> None:
    library = library_of()

    def found(**wanted: str) -> list[str]:
        return [one.name for one in library.find(**wanted)]

    assert found(subtype="evaluator") == ["judge"]
    assert found(task_type="script") == ["run-tests"]
    assert found(task_type="sequential", subtype="standard") == []
    assert found(task_type="atomic", subtype="standard") == ["review", "summarise", "digest", "open-ended"]
    assert found() == list(library.tasks)


def test_a_name_that_is_registered_twice_is_a_value_error() -> None:
    library = library_of()

    with pytest.raises(ValueError, match="task 'judge' is already registered"):
        library.register_task(library.get_task("judge"))
