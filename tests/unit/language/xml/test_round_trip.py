"""What XML says, S-expressions can say: reading, printing and reading again gives the same tree."""

from pathlib import Path

import pytest

from tests.unit.language.xml import test_tasks as tasks
from tests.unit.language.xml.builders import read
from weft.language.sexp import print_program, read_program
from weft.language.source import Source
from weft.language.xml import read_xml

EXAMPLES = sorted((Path(__file__).parents[4] / "examples").rglob("*.xml"))

EVERYTHING = """<program>
  <template name="t" returns="string[]"><params>a,b</params>
    <param name="c" type="integer" default="3"/><param name="d" default="text"/>
    <call template="g"><arg>a</arg><arg>other</arg><arg>1.5</arg><arg name="k">x {{b}} y</arg></call>
  </template>
  <task subtype="s" timeout="2" max_depth="3" reuse="true">
    <description>D "quoted" \\ back</description>
    <instructions>
      Two lines,
        the second indented, of {{f(a, "b", n=3)}}
    </instructions>
    <system>S</system><model>m</model><provider>p</provider><criteria>c</criteria>
    <inputs><input name="none"/><input name="text">a {{b}} c</input><input name="path" from="x.y[0]"/>
      <input name="json" type="json">{"a": [1, 2.5, null]}</input><input name="lone">{{z}}</input>
      <input name="task"><task ref="t"><inputs><input name="a">1</input></inputs></task></input></inputs>
    <output_slot>slot</output_slot><input_source>other</input_source>
    <output_format type="json">{"type": "object"}</output_format>
    <context_management><inherit_context>none</inherit_context><accumulate_data>false</accumulate_data>
      <accumulation_format>full</accumulation_format><fresh_context>enabled</fresh_context></context_management>
    <context_relevance><input name="text" include="false"/></context_relevance>
    <context_assembly><secondary_elements>e</secondary_elements></context_assembly>
    <file_paths source="description"><description>about {{x}}</description></file_paths>
    <history use="false" turns="2" record="true"/><tools>system:a</tools>
    <manual_xml>true</manual_xml><disable_reparsing>true</disable_reparsing>
  </task>
  <task type="script"><command shell="true">ls | wc</command></task>
  <task type="script"><command>run {{a}} 'b c'</command></task>
  <task type="sequential" parallel="true"><steps><call template="f"/><task ref="t"/></steps></task>
  <cond><case test="output.a == 'b' &amp;&amp; output.c > 1"><call template="f"/></case></cond>
</program>"""


def printed_and_read(text: str) -> None:
    program = read(text)
    printed = print_program(program)
    assert read_program(Source("printed", printed)) == program, printed


def test_everything_xml_says_is_printed_and_read_again() -> None:
    printed_and_read(EVERYTHING)


def test_loops_are_printed_and_read_again() -> None:
    printed_and_read(f"<director_evaluator_loop>{tasks.LOOP}</director_evaluator_loop>")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_printed_and_read_again(path: Path) -> None:
    program = read_xml(Source(path.name, ""), path.read_bytes())
    assert read_program(Source("printed", print_program(program))) == program


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4
