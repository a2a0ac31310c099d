"""What of the surroundings reaches the request of a task, compared literally."""

import pytest

from tests.programs import evaluate, failure_of
from weft.evaluator.effects import ContextPayload, Files
from weft.evaluator.evaluator import Evaluator
from weft.evaluator.results import TaskResult
from weft.language.ast import Atomic, FilePaths, Program, Script, Text, Variable
from weft.language.diagnostics import InvalidProgram
from weft.language.task_fields import ContextAssembly, ContextManagement, HistorySettings
from weft.testing.in_memory_effects import InMemoryEffects

FULL = ContextManagement("full", False, "notes_only", "disabled")
FRESH = ContextManagement("none", False, "notes_only", "enabled")


async def payloads(program: str, *answers: object) -> list[ContextPayload]:
    effects = InMemoryEffects(list(answers) or ["x"])
    await evaluate(program, effects)
    return [call.context for call in effects.calls]


async def test_a_task_by_itself_inherits_nothing_because_there_is_nothing() -> None:
    assert await payloads('(task :instructions "x")') == [ContextPayload(settings=FULL)]


async def test_full_hands_down_what_is_bound_around_but_for_functions_and_own_inputs() -> None:
    found = await payloads(
        """(define outer 0)
        (let ((a 1) (b 2) (f (lambda (x) x)))
          (let ((a 3)) (task :instructions "x" :inputs ((b 9)))))"""
    )

    assert found == [ContextPayload(settings=FULL, inherited={"a": 3}, relevant_inputs=("b",))]


async def test_a_result_is_handed_down_as_what_it_says() -> None:
    found = await payloads(
        '(let ((r (task :instructions "a" :output "json"))) (task :instructions "b"))', "[1]", "x"
    )

    assert found[1].inherited == {"r": [1]}


async def test_none_hands_down_nothing() -> None:
    settings = ContextManagement("none", False, "notes_only", "disabled")
    found = await payloads('(let ((a 1)) (task :instructions "x" :context (:inherit "none")))')

    assert found == [ContextPayload(settings=settings)]


async def test_subset_hands_down_the_relevant_inputs() -> None:
    found = await payloads(
        """(let ((z 1)) (task :instructions "x" :inputs ((a 1) (b 2) (c 3))
             :context (:inherit "subset") :relevance ((a true) (b false))))"""
    )

    settings = ContextManagement("subset", False, "notes_only", "disabled")
    assert found == [ContextPayload(settings=settings, inherited={"a": 1}, relevant_inputs=("a",))]


async def test_subset_without_relevance_hands_down_all_inputs() -> None:
    found = await payloads('(task :instructions "x" :inputs ((a 1) (b 2)) :context (:inherit "subset"))')

    assert found[0].inherited == {"a": 1, "b": 2}


async def test_parameters_are_inputs_of_the_task_that_is_the_body() -> None:
    effects = InMemoryEffects(["x"])
    await evaluate(
        """(deftask r (code (style "plain")) :instructions "{{code}} {{style}}" :inputs ((note "n"))
             :context (:inherit "subset") :relevance ((code true) (style false)))
        (r "CODE")""",
        effects,
    )

    call = effects.calls[0]
    assert call.prompt == "CODE plain"
    assert call.inputs == {"code": "CODE", "style": "plain", "note": "n"}
    assert call.context.inherited == {"code": "CODE"}
    assert call.context.relevant_inputs == ("code",)


async def test_parameters_of_a_reduce_are_handed_down_and_not_folded() -> None:
    effects = InMemoryEffects(lambda call: "x")
    await evaluate(
        """(template t (style) (reduce-task :inputs ((p 1) (q 2)) :inner (task :description "i")
             :reduction (task :description "r")))
        (t "plain")""",
        effects,
    )

    assert [call.context.inherited for call in effects.calls[:2]] == [
        {"p": 1, "input": 1, "style": "plain"},
        {"q": 2, "input": 2, "style": "plain"},
    ]
    assert len(effects.calls) == 4


async def test_an_input_of_a_reduce_may_have_any_name() -> None:
    found = await evaluate(
        "(reduce-task :inputs ((self 1)) :inner input :reduction current_result)", InMemoryEffects()
    )

    assert found.value == 1


async def test_the_parts_of_a_reduce_are_not_handed_the_inputs_of_others() -> None:
    found = await payloads(
        """(let ((around 0)) (reduce-task :inputs ((p 1) (q 2)) :inner (task :description "i")
             :reduction (task :description "r")))""",
        *"1234",
    )

    assert [payload.inherited for payload in found] == [
        {"p": 1, "input": 1},
        {"q": 2, "input": 2},
        {"current_result": "1", "accumulator": None, "original_input": 1},
        {"current_result": "2", "accumulator": "3", "original_input": 2},
    ]


async def test_a_step_is_not_handed_what_the_task_around_it_excludes() -> None:
    found = await payloads(
        """(let ((z 1)) (sequential :inputs ((p 1) (q 2)) :context (:inherit "subset")
             :relevance ((p true) (q false)) (task :description "a")))"""
    )

    assert found[0].inherited == {"p": 1}


async def test_a_parameter_that_is_excluded_is_not_handed_to_steps() -> None:
    found = await payloads(
        """(template t (p q) (sequential :context (:inherit "subset") :relevance ((p true))
             (let ((y 3)) (task :description "a"))))
        (t 1 2)"""
    )

    assert found[0].inherited == {"y": 3, "p": 1}


async def test_a_task_that_inherits_nothing_hands_down_what_it_has_itself() -> None:
    found = await payloads(
        """(let ((z 1)) (sequential :context (:inherit "none") :inputs ((p 1)) (task :description "a")))"""
    )

    assert found[0].inherited == {"p": 1}


async def test_fresh_context_excludes_what_would_be_inherited() -> None:
    found = await payloads('(let ((a 1)) (task :instructions "x" :context (:fresh "enabled")))')

    assert found == [ContextPayload(settings=FRESH, wants_fresh=True)]


async def test_a_task_may_name_files_and_ask_for_fresh_context_too() -> None:
    effects = InMemoryEffects(["x"])
    await evaluate(
        '(task :instructions "x" :context (:fresh "enabled") :files ("a.py" "{{p}}") :inputs ((p "b.py")))',
        effects,
    )

    assert effects.calls[0].files == Files("literal", ("a.py", "b.py"))
    assert effects.calls[0].context.wants_fresh


async def test_files_may_be_found_by_a_description() -> None:
    effects = InMemoryEffects(["x"])
    await evaluate(
        '(task :instructions "x" :files (:description "about {{t}}") :inputs ((t "cats")))', effects
    )

    assert effects.calls[0].files == Files("description", (), "about cats")


async def test_no_value_joins_the_command_that_finds_files() -> None:
    command = Text(raw="ls {{x}}", parts=("ls ", Variable(name="x")))
    node = Atomic(
        instructions=Text(raw="x", parts=("x",)), file_paths=FilePaths(source="command", text=command)
    )

    with pytest.raises(InvalidProgram, match="cannot have placeholders"):
        await Evaluator(InMemoryEffects()).evaluate(Program((node,)), {"x": "; rm"})


async def test_no_value_joins_the_command_of_a_shell() -> None:
    node = Script(shell=Text(raw="ls {{x}}", parts=("ls ", Variable(name="x"))))

    with pytest.raises(InvalidProgram, match="would be part of a command line"):
        await Evaluator(InMemoryEffects()).evaluate(Program((node,)), {"x": "; rm"})


async def test_assembly_is_passed_on_as_written() -> None:
    found = await payloads('(task :instructions "x" :assembly (:primary "code" :excluded "logs"))')

    assert found[0].assembly == ContextAssembly("code", None, "logs")


async def test_notes_only_tells_one_line_per_step() -> None:
    found = await payloads(
        '(sequential (task :description "first") (task :description "second") (task :description "third"))',
        "one",
        TaskResult("two", "COMPLETE", notes={"successScore": 0.5}),
        "three",
    )

    assert [payload.previous_outputs for payload in found] == [
        None,
        "1. first: COMPLETE",
        '1. first: COMPLETE\n2. second: COMPLETE {"successScore": 0.5}',
    ]


async def test_later_steps_are_not_told_how_an_answer_came_about() -> None:
    counted = {
        "model": "m",
        "usage": {"tokens": 3},
        "answered_at": "2025-03-01T00:00:00+00:00",
        "reused": "id",
    }
    found = await payloads(
        '(sequential (task :description "first") (task :description "second"))',
        TaskResult("one", "COMPLETE", notes={**counted, "successScore": 0.5}),
        "two",
    )

    assert found[1].previous_outputs == '1. first: COMPLETE {"successScore": 0.5}'


async def test_full_output_tells_everything() -> None:
    found = await payloads(
        """(sequential :context (:format "full_output")
             (task :description "first" :output-slot a) (task :description "second")
             (task :description "third"))""",
        "one",
        "two",
        "three",
    )

    assert found[2].previous_outputs == "[1] a\none\n\n[2] second\ntwo"


async def test_without_accumulation_nothing_is_told() -> None:
    found = await payloads(
        '(sequential :context (:accumulate false) (task :description "a") (task :description "b"))', "1", "2"
    )

    assert [payload.previous_outputs for payload in found] == [None, None]


async def test_steps_and_last_output_are_not_handed_down_as_context() -> None:
    found = await payloads('(sequential (task :description "a") (task :description "b"))', "1", "2")

    assert found[1].inherited == {}


async def test_a_template_that_is_called_as_a_step_is_told_too() -> None:
    found = await payloads(
        '(deftask f (x) :description "f") (sequential (task :description "a") (f 1))', "one", "two"
    )

    assert found[1].previous_outputs == "1. a: COMPLETE"
    assert found[1].inherited == {}
    assert found[1].relevant_inputs == ("x",)


async def test_parallel_steps_are_told_nothing_of_each_other_or_of_those_around() -> None:
    found = await payloads(
        """(sequential (task :description "a")
             (sequential :parallel true (task :description "b") (task :description "c")))""",
        "1",
        "2",
        "3",
    )

    assert [payload.previous_outputs for payload in found] == [None, None, None]


async def test_reductions_are_told_of_those_before_and_inner_tasks_of_none() -> None:
    found = await payloads(
        """(reduce-task :inputs ((a 1) (b 2)) :inner (task :description "i")
             :reduction (task :description "r"))""",
        *"1234",
    )

    assert [payload.previous_outputs for payload in found] == [
        None,
        None,
        None,
        "1. reduction of a: COMPLETE",
    ]


async def test_a_loop_tells_its_parts_what_came_before() -> None:
    found = await payloads(
        """(director-evaluator-loop :context (:format "full_output") :director (task :description "d")
             :evaluator (task :description "e"))""",
        "draft",
        '{"success": true}',
    )

    assert found[1].previous_outputs == "[1] director 1\ndraft"


async def test_a_call_replaces_context_files_history_and_model() -> None:
    effects = InMemoryEffects(["x"])
    await evaluate(
        """(deftask f (a) :instructions "x" :context (:inherit "full") :model "m:1")
        (f 1 :context (dict "fresh" "enabled") :files (list "a" "{{b}}")
             :history (dict "turns" 2) :model "m:2")""",
        effects,
    )

    call = effects.calls[0]
    assert call.context.settings == FRESH
    assert call.files == Files("literal", ("a", "{{b}}"))
    assert call.history == HistorySettings(history_turns_to_include=2)
    assert call.model == "m:2"


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        (':context (dict "inherti" "none")', "has no setting 'inherti'; did you mean 'inherit'?"),
        (':context (dict "inherit" "some")', ':context: inherit must be one of "full"'),
        (':context (dict "inherit" "full" "fresh" "enabled")', "excludes inherit_context"),
        (':context "none"', ":context must be a dict with inherit, accumulate"),
        (":history (dict :turns -1)", ":history: turns must be at least 1"),
        (":files 3", ":files must be a list of paths"),
        (":model 3", ":model must be a string"),
    ],
)
async def test_bad_settings_of_a_call_are_mistakes_of_the_program(keywords: str, message: str) -> None:
    program = f'(deftask f () :instructions "x") (f {keywords})'

    assert message in (await failure_of(program, InMemoryEffects())).message


async def test_settings_for_a_template_that_is_no_single_task_are_refused() -> None:
    error = await failure_of('(template f () (+ 1 2)) (f :model "m:1")', InMemoryEffects())

    assert "not a single task" in error.message


@pytest.mark.parametrize("keyword", ['files (list "a.py")', "history (dict :use true)"])
async def test_settings_of_requests_are_refused_for_a_composite(keyword: str) -> None:
    program = f'(template t () (sequential (task :instructions "a"))) (t :{keyword})'
    error = await failure_of(program, InMemoryEffects())

    assert error.problem.code == "bad-value"
    assert "for atomic tasks, and this is a sequential task" in error.message


async def test_a_composite_with_fields_of_a_request_is_not_run() -> None:
    with pytest.raises(InvalidProgram, match="system is for atomic tasks"):
        await evaluate('(sequential :system "s" (task :instructions "a"))', InMemoryEffects())


async def test_a_parameter_comes_before_a_setting_of_its_name() -> None:
    effects = InMemoryEffects(["x"])
    await evaluate('(deftask f (files) :instructions "{{files}}") (f :files "mine")', effects)

    assert effects.calls[0].prompt == "mine"
    assert effects.calls[0].files is None


async def test_an_input_may_have_the_name_of_a_built_in() -> None:
    effects = InMemoryEffects(["x"])

    await evaluate('(task :instructions "of {{length}}" :inputs ((length 3)))', effects)

    assert effects.calls[0].prompt == "of 3"


@pytest.mark.parametrize(
    ("program", "unmentioned"),
    [
        ('(task :instructions "Review the code." :inputs ((code "x = 1")))', ("code",)),
        ('(task :instructions "Review {{code}}." :inputs ((code "x = 1")))', ()),
        ('(task :instructions "Review." :system "It is {{code.kind}}." :inputs ((code (dict :kind 1))))', ()),
        (
            '(task :instructions "Review {{string-append(code, code)}}." :inputs ((code "x") (more "y")))',
            ("more",),
        ),
        ('(deftask f (a b) :instructions "About {{a}}.") (f 1 2)', ("b",)),
        ('(task :instructions "x" :inputs ((a 1) (b 2)) :relevance ((a true) (b false)))', ("a",)),
        ('(let ((a 1)) (task :instructions "x"))', ()),
    ],
)
async def test_inputs_that_no_placeholder_shows_are_told_apart(
    program: str, unmentioned: tuple[str, ...]
) -> None:
    effects = InMemoryEffects(["x"])

    await evaluate(program, effects)

    assert effects.calls[0].unmentioned == unmentioned


@pytest.mark.parametrize(
    ("program", "mentioned"),
    [
        ('(map (lambda (n) (task :instructions "n {{n}}")) (list "long value"))', ("n",)),
        ('(let ((a "one") (b "two")) (task :instructions "x" :system "{{a}}"))', ("a",)),
        ('(let ((a "one")) (let ((b a)) (task :instructions "{{b}}")))', ("a", "b")),
        ('(let ((a 1)) (let ((b a)) (task :instructions "{{b}}")))', ("b",)),
        ('(let ((a "one")) (task :instructions "{{b}}" :inputs ((b a))))', ("a",)),
        ('(let ((a "one")) (task :instructions "x"))', ()),
    ],
)
async def test_bindings_that_a_placeholder_shows_are_told_apart(
    program: str, mentioned: tuple[str, ...]
) -> None:
    effects = InMemoryEffects(["x"])

    await evaluate(program, effects)

    assert tuple(sorted(effects.calls[0].mentioned)) == mentioned
