"""What is refused, with its place, its code, and the way to put it right."""

import pytest

from tests.unit.language.xml.builders import problem, problems
from weft.language.xml.found import MAX_FOUND

D = "<description>d</description>"
LOOP = "<director><description>d</description></director><evaluator><description>e</description></evaluator>"

REFUSED = [
    # the document
    ("", "1:1: syntax-error: the document is empty"),
    ("<task><description>d</task>", "syntax-error: mismatched tag; <description> of line 1 is open here"),
    ("<task>", "syntax-error: no element found; <task> of line 1 is open here"),
    ("<tsk/>", "1:1: unknown-element: <tsk> is no weft document: expected one of <program>"),
    ("<tsk/>", "did you mean 'task'?"),
    (f'<task xmlns="urn:x">{D}</task>', "unknown-attribute: elements of weft have no namespace; remove xmlns"),
    ("<w:task xmlns:w='urn:x'/>", "elements of weft have no namespace: remove xmlns"),
    ("<program/>", "1:1: missing-field: <program> is empty"),
    # words
    ("<task>\n <descripton>d</descripton></task>", "2:2: unknown-element: <descripton> is unknown in <task>; did you mean 'description'?"),
    (f"<task>{D}<zzz/></task>", "<zzz> is unknown in <task>; it can have: command, context_assembly, "),
    (f'<task typ="atomic">{D}</task>', "unknown-attribute: attribute 'typ' is unknown in <task>; did you mean 'type'?"),
    (f'<task model="x">{D}</task>', "attribute 'model' is unknown in <task>; write it as an element: <model>...</model>"),
    (f"<task>{D}<subtype>x</subtype></task>", '<subtype> is unknown in <task>; write it as an attribute: subtype="..."'),
    (f"<task>{D}<system>a <b>c</b></system></task>", "<b> is unknown in <system>, which holds text: write &lt; for <, or put the text in <![CDATA["),
    (f'<task type="atomc">{D}</task>', "bad-value: type of <task> must be \"atomic\" or \"sequential\" or \"reduce\" or \"script\" or \"director_evaluator_loop\", not 'atomc'; did you mean 'atomic'?"),
    (f"<task>{D}stray</task>", "bad-value: <task> holds elements and no text, but here is 'stray'"),
    (f"<task>{D}\n{D}</task>", "2:1: duplicate-name: <description> is given twice, first on line 1; remove one"),
    # needed
    ("<task/>", "1:1: missing-field: an atomic task needs a <description> or <instructions>: it is the prompt"),
    ("<task><description> </description></task>", "missing-field: an atomic task needs a <description>"),
    ('<task type="sequential"/>', "missing-field: a task of type sequential needs <steps> with at least one step"),
    ('<task type="sequential"><steps/></task>', "needs <steps> with at least one step"),
    ('<task type="reduce"><reduction_task><description>d</description></reduction_task></task>', "missing-field: a task of type reduce needs a <inner_task>"),
    (f"<director_evaluator_loop><director>{D}</director></director_evaluator_loop>", "missing-field: a loop needs an <evaluator>, or <criteria> by which to find one"),
    ("<director_evaluator_loop><criteria>c</criteria></director_evaluator_loop>", "missing-field: a task of type director_evaluator_loop needs a <director>"),
    (f"<director_evaluator_loop>{LOOP}<script_execution/></director_evaluator_loop>", "<script_execution> needs a <command>"),
    (f"<director_evaluator_loop>{LOOP}<termination_condition/></director_evaluator_loop>", "<termination_condition> needs a <condition>"),
    ("<cond/>", "missing-field: <cond> needs at least one <case>"),
    ('<cond><case test="true"/></cond>', "missing-field: <case> needs a <task>, <call>, <cond> or <director_evaluator_loop>"),
    ('<cond><case><call template="f"/></case></cond>', '1:7: missing-field: <case> needs an attribute: test="..."'),
    ("<call/>", 'missing-field: <call> needs the name of what is called: template="..."'),
    (f"<template><task>{D}</task></template>", 'missing-field: <template> needs a name: name="..."'),
    ('<template name="t"/>', "missing-field: <template> needs a <task>"),
    (f"<task>{D}<inputs><input>x</input></inputs></task>", 'missing-field: <input> needs an attribute: name="..."'),
    (f"<task>{D}<output_format/></task>", 'missing-field: <output_format> needs an attribute: type="..."'),
    (f"<task>{D}<file_paths/></task>", 'missing-field: <file_paths source="literal"> needs a <path>'),
    # one of each
    (f'<template name="t"><name>t</name><task>{D}</task></template>', "duplicate-name: name is given twice, as an attribute and as an element; remove one"),
    (f'<template name="t"><task>{D}</task><task>{D}</task></template>', "bad-value: <template> has one task; put several in a task of type sequential"),
    (f"<task>{D}<inputs><input name='a'>1</input><input name='a'>2</input></inputs></task>", "duplicate-name: input 'a' is given twice, first on line 1; input names must be unique"),
    (f"<task>{D}<inputs><input name='a' from='b'>1</input></inputs></task>", "bad-value: <input> has one value: a text, from=\"...\" or one element; this one has 2"),
    ("<call template='f'><arg name='a'>1</arg><arg name='a'>2</arg></call>", "duplicate-name: the argument 'a' is given twice"),
    (f"<template name='t' params='a,a'><task>{D}</task></template>", "duplicate-name: parameter 'a' is given twice"),
    (f"<program><template name='t'><task>{D}</task></template>\n<template name='t'><task>{D}</task></template></program>", "2:1: duplicate-name: template 't' is given twice, first on line 1"),
    (f"<task type='reduce'><inner_task type='atomic'><task>{D}</task></inner_task><reduction_task>{D}</reduction_task></task>", "bad-value: <inner_task> is a task itself, or has one <task> inside and nothing else"),
    (f"<task>{D}<context_relevance><input name='a' include='true'/><input name='a' include='false'/></context_relevance></task>", "input 'a' is given twice in <context_relevance>"),
    (f'<task>{D}<output_format type="json" schema="object">{{}}</output_format></task>', "duplicate-name: the schema is given twice"),
    # names
    (f"<template name='t' params='a,2b'><task>{D}</task></template>", "bad-value: parameter '2b' is not a valid name: letters, digits and _, no digit first"),
    (f"<template name='t' params='a,,b'><task>{D}</task></template>", "bad-value: parameter '' is not a valid name"),
    (f"<template name='t' params='a-b'><task>{D}</task></template>", "bad-value: parameter 'a-b' is not a valid name"),
    (f"<template name='a b'><task>{D}</task></template>", "bad-value: template 'a b' is not a valid name"),
    (f"<task>{D}<output_slot>nil</output_slot></task>", "reserved-name: output_slot 'nil' is a value and cannot be a name"),
    ("<task ref='a(b'/>", "bad-value: ref 'a(b' is not a valid name"),
    (f"<task>{D}<tools>system:read_files; rm</tools></task>", "bad-value: 'system:read_files;' is not the name of a tool, such as system:read_files"),
    # values
    (f"<task>{D}<manual_xml>1</manual_xml></task>", "bad-value: <manual_xml> must be \"true\" or \"false\", not '1'"),
    (f"<task>{D}<manual_xml>True</manual_xml></task>", "did you mean 'true'?"),
    (f"<task>{D}<context_management><inherit_context>false</inherit_context></context_management></task>", "bad-value: <inherit_context> must be \"full\" or \"none\" or \"subset\", not 'false'"),
    (f"<task timeout='0'>{D}</task>", "bad-value: timeout must be seconds above 0, not '0'"),
    (f"<task timeout='soon'>{D}</task>", "bad-value: timeout must be seconds above 0, not 'soon'"),
    (f"<task>{D}<max_depth>-1</max_depth></task>", "bad-value: max_depth must be a whole number from 1, not '-1'"),
    (f"<task max_depth='1.5'>{D}</task>", "bad-value: max_depth must be a whole number from 1, not '1.5'"),
    (f"<task>{D}<history turns='0'/></task>", "bad-value: turns must be a whole number from 1, not '0'"),
    (f"<task>{D}<output_format type='json' schema='strng[]'/></task>", "bad-value: schema 'strng[]' is unknown: expected object, array, [], string[], "),
    (f"<task>{D}<output_format type='json' schema='strng[]'/></task>", "did you mean 'string[]'?"),
    (f"<task>{D}<output_format type='json'>{{\"type\": 3}}</output_format></task>", "bad-value: not a JSON Schema: 3 is not"),
    (f"<task>{D}<output_format type='json'>{{type: 3}}</output_format></task>", "bad-value: the schema is neither a name nor JSON"),
    (f"<task>{D}<output_format type='text' schema='object'/></task>", 'bad-value: schema "object" needs type="json"'),
    (f"<template name='t' returns='text'><task>{D}</task></template>", "bad-value: returns 'text' is no shape: expected object, array"),
    (f"<template name='t'><param name='p' type='integer' default='x'/><task>{D}</task></template>", "wrong-type: default 'x' is not of type integer"),
    (f"<task>{D}<inputs><input name='a' type='json'>{{</input></inputs></task>", "bad-value: <input> of type json is not JSON: "),
    (f"<task>{D}<inputs><input name='a' type='json'>NaN</input></inputs></task>", "NaN is not JSON"),
    # which field belongs where
    (f"<task>{D}<steps><task>{D}</task></steps></task>", 'bad-value: steps belongs to a task of type sequential, but this one is of type atomic; write type="sequential"'),
    (f"<task parallel='true'>{D}</task>", "parallel belongs to a task of type sequential, but this one is of type atomic"),
    ("<task ref='t'><command>ls</command></task>", "command belongs to a task of type script, but this one has ref, and is what the template is"),
    (f"<task>{D}<file_paths><command>ls</command></file_paths></task>", 'bad-value: <file_paths source="literal"> has <path> and no <command>; write source="command"'),
    (f"<task>{D}<file_paths source='description'><path>a</path></file_paths></task>", 'bad-value: <file_paths source="description"> has <description> and no <path>; write source="literal"'),
    # commands
    ("<task type='script'><command>a | b</command></task>", "bad-value: '|' means something to a shell only, and none runs this: write shell=\"true\""),
    ("<task type='script'><command>a &gt;out</command></task>", "'>out' means something to a shell only"),
    ("<task type='script'><command>a 'b</command></task>", "syntax-error: <command> cannot be split into words: No closing quotation"),
    ("<task type='script'><command/></task>", "missing-field: <command> is empty"),
    ("<task type='script'><command>x<arg>a</arg></command></task>", "bad-value: <command> has either text or <arg>s"),
    ("<task type='script'><command shell='true'>echo {{x}}</command></task>", "bad-value: a placeholder cannot stand in the text of a <command> that a shell runs"),
    ("<task type='script'><command shell='true'><arg>a</arg></command></task>", 'bad-value: <command shell="true"> has the text the shell runs, and no <arg>s'),
    (f"<task>{D}<file_paths source='command'><command>find {{{{x}}}}</command></file_paths></task>", "a placeholder cannot stand in the text of a <command>"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "expected"), REFUSED, ids=range(len(REFUSED)))
def test_a_mistake_is_told_with_its_place_and_the_fix(document: str, expected: str) -> None:
    told = problem(document)
    assert expected in told
    assert told.startswith("t.xml:")


CONFLICT = """<task>
  <description>d</description>
  <context_management>
    <inherit_context>{inherit}</inherit_context><fresh_context>enabled</fresh_context>
  </context_management>
</task>"""


@pytest.mark.parametrize("inherit", ["full", "subset"])
def test_fresh_and_inherited_context_exclude_each_other(inherit: str) -> None:
    told = problem(CONFLICT.format(inherit=inherit))
    assert told.startswith(
        f't.xml:3:3: context-conflict: fresh_context "enabled" excludes inherit_context "{inherit}"'
    )


def test_all_problems_are_told_at_once_in_their_order() -> None:
    told = problems(
        """<task typ="atomic">
  <instruction>x</instruction>
  <inputs><input name="a">{{1 +}}</input>
    <input name="b" from="a..b"/></inputs>
  <manual_xml>yes</manual_xml>
</task>"""
    )
    assert [(one.code, one.span.line) for one in told] == [
        ("unknown-attribute", 1),
        ("unknown-element", 2),
        ("syntax-error", 3),
        ("syntax-error", 4),
        ("bad-value", 5),
    ]


def test_a_misspelt_field_is_not_called_missing_as_well() -> None:
    assert len(problems("<task><instruction>x</instruction></task>")) == 1


def test_reading_ends_at_a_number_of_problems() -> None:
    assert len(problems("<task>" + "<x/>" * 100_000 + "</task>")) == MAX_FOUND


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ("<task><description>a\n  b {{x y}}</description></task>", (2, 9)),
        ("<task>\n  <description>\n\n      b\n        {{x y}}</description></task>", (5, 13)),
        ("<task><description>{{x y}}</description></task>", (1, 24)),
        (
            '<task><description>d</description>\n<inputs><input name="a"\n  from="b..c"/></inputs></task>',
            (3, 11),
        ),
        ('<cond>\n <case test="output.a ===  1"><call template="f"/></case></cond>', (2, 23)),
        ("<task>\n  <description\n    >d</description>\n  <x/></task>", (4, 3)),
        ("<task>é<description>ü</description><x/></task>", (1, 1)),
        ("<task><description>üé</description><x/></task>", (1, 36)),
    ],
)
def test_mistakes_inside_texts_have_their_own_places(document: str, place: tuple[int, int]) -> None:
    first = problems(document)[0]
    assert (first.span.line, first.span.column) == place
    assert first.excerpt().endswith("^")
