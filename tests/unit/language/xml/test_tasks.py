"""Every kind of task and every field, from XML to the tree."""

import pytest

from tests.unit.language.xml.builders import read, read_one
from weft.language.ast import (
    Atomic,
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
    TaskNode,
    Text,
    Variable,
)
from weft.language.cel import parse_text
from weft.language.source import NOWHERE
from weft.language.task_fields import ContextAssembly, ContextOverrides, HistorySettings, OutputFormat


def text(raw: str) -> Text:
    return parse_text(raw, NOWHERE)


def atomic(description: str) -> Atomic:
    return Atomic(description=text(description))


def task(inside: str) -> TaskNode:
    node = read_one(f"<task><description>d</description>{inside}</task>")
    assert isinstance(node, TaskNode)
    return node


def test_a_task_without_a_type_is_atomic() -> None:
    assert read_one("<task><description>Say {{what}}</description></task>") == atomic("Say {{what}}")
    assert read_one('<task type="atomic"><description>d</description></task>') == atomic("d")


def test_every_field_of_a_task_arrives() -> None:
    node = read_one(
        """<task subtype="director" timeout="1.5" reuse="false">
             <tools>system:read_files, system:run
                    system:run</tools>
             <description>D</description> <instructions>I {{a}}</instructions> <system>S</system>
             <model>local:auto</model> <provider>local</provider> <criteria>validate, log</criteria>
             <output_slot>answer</output_slot> <input_source>before</input_source>
             <output_format type="json" schema="string[]"/>
             <context_management>
               <inherit_context>none</inherit_context> <accumulate_data>true</accumulate_data>
               <accumulation_format>full</accumulation_format> <fresh_context>enabled</fresh_context>
             </context_management>
             <context_relevance>
               <input name="a" include="true"/><input name="b" include="false"/>
             </context_relevance>
             <context_assembly><primary_elements>the code</primary_elements></context_assembly>
             <history use="true" turns="3" record="false"/>
             <max_depth>2</max_depth>
             <manual_xml>false</manual_xml> <disable_reparsing>true</disable_reparsing>
             <inputs><input name="a" from="x.y[0]"/></inputs>
           </task>"""
    )
    assert node == Atomic(
        subtype="director",
        description=text("D"),
        instructions=text("I {{a}}"),
        system=text("S"),
        model="local:auto",
        provider="local",
        criteria="validate, log",
        inputs=(Input("a", Variable(name="x", path=("y", 0))),),
        output_slot="answer",
        input_source="before",
        output_format=OutputFormat("json", "string[]"),
        context=ContextOverrides("none", True, "full_output", "enabled"),
        context_relevance=(("a", True), ("b", False)),
        context_assembly=ContextAssembly(primary_elements="the code"),
        history=HistorySettings(True, 3, False),
        tools=("system:read_files", "system:run"),
        timeout_seconds=1.5,
        max_depth=2,
        reuse=False,
        disable_reparsing=True,
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("full", "full_output"),
        ("full_output", "full_output"),
        ("minimal", "notes_only"),
        ("notes_only", "notes_only"),
    ],
)
def test_the_accumulation_format_has_aliases(written: str, meant: str) -> None:
    inside = f"<accumulation_format> {written}\n</accumulation_format>"
    assert task(f"<context_management>{inside}</context_management>").context.accumulation_format == meant


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        (
            "<file_paths><path>a.py</path><path>{{p}}</path></file_paths>",
            FilePaths("literal", (text("a.py"), text("{{p}}"))),
        ),
        (
            '<file_paths source="command"><command>git ls-files</command></file_paths>',
            FilePaths("command", text=text("git ls-files")),
        ),
        (
            '<file_paths source="description"><description>about {{x}}</description></file_paths>',
            FilePaths("description", text=text("about {{x}}")),
        ),
        (
            """<file_paths source='context_description'>
                 <context_description>c</context_description></file_paths>""",
            FilePaths("context_description", text=text("c")),
        ),
    ],
)
def test_file_paths_of_every_source(inside: str, expected: FilePaths) -> None:
    assert task(inside).file_paths == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('<output_format type="text"/>', OutputFormat("text")),
        ('<output_format type="json" schema="[]"/>', OutputFormat("json", "[]")),
        (
            '<output_format type="json" schema="schemas/report.json"/>',
            OutputFormat("json", "schemas/report.json"),
        ),
        (
            '<output_format type="json">{"type": "object",\n "required": ["a"]}</output_format>',
            OutputFormat("json", '{"type":"object","required":["a"]}'),
        ),
        (
            '<output_format type="json" schema=\'{"type": "array"}\'/>',
            OutputFormat("json", '{"type":"array"}'),
        ),
    ],
)
def test_output_formats(written: str, expected: OutputFormat) -> None:
    assert task(written).output_format == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("<input name='x'/>", None),
        ("<input name='x'>  data1 </input>", Literal(value="data1")),
        ("<input name='x'>a {{b}} c</input>", text("a {{b}} c")),
        ("<input name='x'> {{b.c}} </input>", Variable(name="b", path=("c",))),
        ("<input name='x' from='b[0]'/>", Variable(name="b", path=(0,))),
        ("<input name='x' type='json'>3</input>", Literal(value=3)),
        ("<input name='x' type='json'>null</input>", Literal(value=None)),
        ("<input name='x'>3</input>", Literal(value="3")),
        (
            "<input name='x' type='json'>[1, {}]</input>",
            FunctionCall(func_name="json-parse", args=(Literal(value="[1, {}]"),)),
        ),
        ("<input name='x'><task><description>d</description></task></input>", atomic("d")),
        ("<input name='x'><call template='f'/></input>", FunctionCall(func_name="f")),
        ("<input name='x' xml:space='preserve'> a </input>", Literal(value=" a ")),
        ("<input name='x' type='string'></input>", Literal(value="")),
        ("<input name='x' type=' json\n'>1</input>", Literal(value=1)),
    ],
)
def test_inputs_are_texts_paths_json_or_tasks(written: str, expected: Node | None) -> None:
    assert task(f"<inputs>{written}</inputs>").inputs == (Input("x", expected),)


def test_a_reference_names_a_template_and_may_say_a_type() -> None:
    node = read_one('<task type="atomic" ref="review"><inputs><input name="code">x</input></inputs></task>')
    assert node == Reference(ref="review", inputs=(Input("code", Literal(value="x")),))


def test_a_sequential_task_has_steps_of_every_kind() -> None:
    node = read_one(
        """<task type="sequential" parallel="true"><steps>
             <task><description>a</description></task>
             <call template="f"/>
             <cond><case test="output.ok"><call template="g"/></case></cond>
           </steps></task>"""
    )
    cond = TaskCond(cases=(TaskCase(Condition(text="output.ok"), FunctionCall(func_name="g")),))
    assert node == Sequential(steps=(atomic("a"), FunctionCall(func_name="f"), cond), is_parallel=True)


def test_reduce_has_an_initial_value_and_two_tasks() -> None:
    node = read_one(
        """<task type="reduce">
             <initial_value type="json">0</initial_value>
             <inputs><input name="a">1</input><input name="b">2</input></inputs>
             <inner_task><description>square {{input}}</description></inner_task>
             <reduction_task>
               <call template="add"><arg>accumulator</arg><arg>current_result</arg></call>
             </reduction_task>
           </task>"""
    )
    assert node == Reduce(
        initial_value=Literal(value=0),
        inputs=(Input("a", Literal(value="1")), Input("b", Literal(value="2"))),
        inner_task=atomic("square {{input}}"),
        reduction_task=FunctionCall(
            func_name="add", args=(Variable(name="accumulator"), Variable(name="current_result"))
        ),
    )


LOOP = """
  <description>L</description> <max_iterations>3</max_iterations>
  <director><instructions>write {{user_query}}</instructions></director>
  <evaluator><task ref="judge"/></evaluator>
  <script_execution>
    <command>pytest -q</command> <timeout>60</timeout>
    <inputs><input name="code" from="director_result.content"/></inputs>
  </script_execution>
  <termination_condition><condition> evaluation.score &gt; 3 </condition></termination_condition>"""


@pytest.mark.parametrize("outer", ["task type='director_evaluator_loop'", "director_evaluator_loop"])
def test_a_loop_is_an_element_and_a_type_of_task(outer: str) -> None:
    node = read_one(f"<{outer}>{LOOP}</{outer.split()[0]}>")
    assert node == DirectorEvaluatorLoop(
        description=text("L"),
        max_iterations=3,
        director=Atomic(instructions=text("write {{user_query}}")),
        evaluator=Reference(ref="judge"),
        script=Script(
            argv=(text("pytest"), text("-q")),
            timeout_seconds=60,
            inputs=(Input("code", Variable(name="director_result", path=("content",))),),
        ),
        termination_condition=Condition(text="evaluation.score > 3"),
    )


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            "<command><arg>python</arg><arg>-c</arg><arg>print({{x}})</arg></command>",
            ["python", "-c", "print({{x}})"],
        ),
        (
            "<command>run --file 'my {{a}}' {{f(x, \"y z\")}}.txt</command>",
            ["run", "--file", "my {{a}}", '{{f(x, "y z")}}.txt'],
        ),
        ("<command>\n  ls -l\n</command>", ["ls", "-l"]),
    ],
)
def test_a_command_is_a_list_of_arguments(command: str, expected: list[str]) -> None:
    assert read_one(f"<task type='script'>{command}</task>") == Script(argv=tuple(map(text, expected)))


def test_a_shell_runs_only_when_the_author_asks_for_one() -> None:
    node = read_one('<task type="script"><command shell="true">wc -l &lt; "$path" | sort</command></task>')
    assert node == Script(shell=text('wc -l < "$path" | sort'))


def test_a_script_may_leave_its_command_to_an_input() -> None:
    assert read_one('<task type="script"><description>d</description></task>') == Script(
        description=text("d")
    )


def test_texts_are_dedented_and_keep_their_inner_indentation() -> None:
    plain = task("<instructions>\n      First:\n        indented\n\n      last\n    </instructions>")
    assert plain.instructions == text("First:\n  indented\n\nlast")
    beside = task("<instructions>Beside\n      the tag\n    </instructions>")
    assert beside.instructions == text("Beside\nthe tag")
    tabs = task("<instructions>\n\ta\n\t\tb\tc\n\t</instructions>")
    assert tabs.instructions == text("a\n\tb\tc")


def test_texts_of_manual_xml_are_verbatim() -> None:
    raw = "\n   a\n     {{b}} \n  "
    node = task(f"<manual_xml>true</manual_xml><instructions>{raw}</instructions>")
    assert node.instructions == text(raw)
    assert node.manual_xml


def test_space_is_preserved_where_xml_says_so() -> None:
    assert task('<system xml:space="preserve"> a </system>').system == text(" a ")


def test_cdata_entities_and_comments_are_plain_xml() -> None:
    node = task("<system>a &lt; b &amp;&#x41;<!-- no --><![CDATA[ <tag> {{x}} ]]></system><?pi no?>")
    assert node.system == text("a < b &A <tag> {{x}}")


def test_an_empty_text_is_no_text() -> None:
    assert task("<system>  </system><model/>") == atomic("d")


def test_a_program_holds_several_forms() -> None:
    program = read("<program><task><description>a</description></task><call template='f'/></program>")
    assert program.forms == (atomic("a"), FunctionCall(func_name="f"))
