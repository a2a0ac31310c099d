"""Templates and calls: both spellings, parameters, and what a bare word as an argument means."""

from typing import Any

import pytest

from tests.batches import batched
from tests.unit.language.xml.builders import read, read_one
from weft.language.ast import Atomic, FunctionCall, Literal, Node, Sequential, Template, Variable
from weft.language.cel import parse_text
from weft.language.source import NOWHERE
from weft.language.task_fields import Parameter

BODY = "<task><description>Analyze {{dataset}}</description></task>"
PARSED = Atomic(description=parse_text("Analyze {{dataset}}", NOWHERE))


def args_of(node: Any) -> tuple[Node, ...]:
    assert isinstance(node, FunctionCall)
    return node.args


@pytest.mark.parametrize(
    "opening",
    [
        '<template name="analyze" params="dataset, config" returns="object">',
        "<template><name>analyze</name><params> dataset,config </params><returns>object</returns>",
        '<template name="analyze"><param name="dataset"/><returns>object</returns><param name="config"/>',
    ],
)
def test_templates_have_attributes_or_elements(opening: str) -> None:
    parameters = (Parameter("dataset"), Parameter("config"))
    template = Template(name="analyze", parameters=parameters, body=PARSED, returns="object")
    assert read_one(f"{opening}{BODY}</template>") == template


def test_a_template_without_params_takes_none() -> None:
    assert read_one(f'<template name="t">{BODY}</template>') == Template(name="t", parameters=(), body=PARSED)
    assert read_one(f'<template name="t" params="">{BODY}</template>') == Template(
        name="t", parameters=(), body=PARSED
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('type="string"', Parameter("p", "string")),
        ('default="3"', Parameter("p", None, "3")),
        ('type="string" default="plain"', Parameter("p", "string", "plain")),
        ('type="integer" default="3"', Parameter("p", "integer", 3)),
        ('type="boolean" default="false"', Parameter("p", "boolean", False)),
        ("type='string[]' default='[\"a\"]'", Parameter("p", "string[]", ["a"])),
    ],
)
def test_a_parameter_has_a_type_and_a_default(written: str, expected: Parameter) -> None:
    node = read_one(f'<template name="t"><param name="p" {written}/>{BODY}</template>')
    assert isinstance(node, Template)
    assert node.parameters == (expected,)


@pytest.mark.parametrize("opening", ['<call template="f">', "<call><template>f</template>"])
def test_calls_have_an_attribute_or_an_element(opening: str) -> None:
    node = read_one(f'{opening}<arg>weather_data</arg><arg name="n">{{{{x}}}}</arg></call>')
    assert node == FunctionCall(
        func_name="f", args=(Literal(value="weather_data"),), keywords=(("n", Variable(name="x")),)
    )


@pytest.mark.parametrize("name", ["f", "string-append", "has-key?", "system:read_files", "+", "&lt;="])
def test_anything_with_a_name_can_be_called(name: str) -> None:
    assert read_one(f'<call template="{name}"/>') == FunctionCall(func_name=name.replace("&lt;", "<"))


@batched(
    ("written", "expected"),
    [
        ("<arg>some text</arg>", Literal(value="some text")),
        ("<arg>word</arg>", Literal(value="word")),
        ("<arg/>", Literal(value="")),
        ("<arg>{{word}}</arg>", Variable(name="word")),
        ("<arg>{{g(1)}}</arg>", FunctionCall(func_name="g", args=(Literal(value=1),))),
        ("<arg>a {{b}}</arg>", parse_text("a {{b}}", NOWHERE)),
        ('<arg from="a.b"/>', Variable(name="a", path=("b",))),
        ("<arg>123</arg>", Literal(value=123)),
        ("<arg>-45.67</arg>", Literal(value=-45.67)),
        ("<arg>007</arg>", Literal(value="007")),
        ("<arg>true</arg>", Literal(value=True)),
        ("<arg>null</arg>", Literal(value=None)),
        ('<arg>"value"</arg>', Literal(value="value")),
        ("<arg>'123'</arg>", Literal(value="123")),
        ("<arg>'a' or 'b'</arg>", Literal(value="'a' or 'b'")),
        ('<arg type="string">123</arg>', Literal(value="123")),
        ('<arg type="json">[1]</arg>', FunctionCall(func_name="json-parse", args=(Literal(value="[1]"),))),
        ('<arg><call template="g"/></arg>', FunctionCall(func_name="g")),
    ],
)
def test_arguments_are_of_the_kinds_the_specification_lists(written: str, expected: Node) -> None:
    assert args_of(read_one(f'<call template="f">{written}</call>')) == (expected,)


def test_a_bare_word_is_a_variable_where_the_template_declares_it() -> None:
    node = read_one(
        '<template name="t" params="a"><call template="f"><arg>a</arg><arg>b</arg></call></template>'
    )
    assert isinstance(node, Template)
    assert args_of(node.body) == (Variable(name="a"), Literal(value="b"))


def test_a_bare_word_is_a_variable_after_the_step_that_binds_it() -> None:
    call = '<call template="f"><arg>found</arg></call>'
    slot = "<task><description>d</description><output_slot>found</output_slot></task>"
    node = read_one(f'<task type="sequential"><steps>{call}{slot}{call}</steps></task>')
    assert isinstance(node, Sequential)
    assert args_of(node.steps[0]) == (Literal(value="found"),)
    assert args_of(node.steps[2]) == (Variable(name="found"),)
    forms = read(f"<program>{call}{slot}{call}</program>").forms
    assert [args_of(forms[0]), args_of(forms[2])] == [(Literal(value="found"),), (Variable(name="found"),)]


def test_parallel_steps_do_not_see_each_others_slots() -> None:
    slot = "<task><description>d</description><output_slot>found</output_slot></task>"
    call = '<call template="f"><arg>found</arg></call>'
    node = read_one(f'<task type="sequential" parallel="true"><steps>{slot}{call}</steps></task>')
    assert isinstance(node, Sequential)
    assert args_of(node.steps[1]) == (Literal(value="found"),)


def test_a_subset_is_the_inputs_that_are_relevant() -> None:
    node = read_one(
        """<task type="sequential">
             <context_management><inherit_context>subset</inherit_context></context_management>
             <inputs><input name="a">x</input><input name="b">y</input></inputs>
             <context_relevance><input name="a" include="true"/></context_relevance>
             <steps><call template="f"><arg>a</arg><arg>b</arg></call></steps>
           </task>"""
    )
    assert isinstance(node, Sequential)
    assert args_of(node.steps[0]) == (Variable(name="a"), Literal(value="b"))


@pytest.mark.parametrize(("inherit", "is_seen"), [("full", True), ("none", False), ("subset", False)])
def test_a_task_that_does_not_inherit_does_not_see_the_names_around_it(inherit: str, is_seen: bool) -> None:
    node = read_one(
        f"""<template name="t" params="outer"><task type="sequential">
              <context_management><inherit_context>{inherit}</inherit_context></context_management>
              <inputs><input name="own">x</input></inputs>
              <steps><call template="f"><arg>outer</arg><arg>own</arg></call></steps>
            </task></template>"""
    )
    assert isinstance(node, Template)
    assert isinstance(node.body, Sequential)
    outer, own = args_of(node.body.steps[0])
    assert isinstance(outer, Variable) == is_seen
    assert own == Variable(name="own")
