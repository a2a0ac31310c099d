"""weft.xsd: valid, complete, documented, packed, and of one mind with the reader."""

import ast
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

import weft.language.xml
from tests.batches import batched
from tests.examples import examples
from tests.unit.language.xml.builders import problems
from tests.unit.language.xml.test_rules import REFUSED
from weft.language.fields import SETTINGS, TASK_FIELDS, TASK_KINDS
from weft.language.traversal import raise_recursion_limit
from weft.language.xml.elements import ROOTS
from weft.language.xml.reader import NODES
from weft.language.xml.schema import REPEATABLE, vocabulary

XS = "{http://www.w3.org/2001/XMLSchema}"
SCHEMA = etree.fromstring(files("weft.language.xml").joinpath("weft.xsd").read_bytes())
READER = Path(weft.language.xml.__file__).parent

TABLE = {
    field.tag
    for fields in (TASK_FIELDS, *SETTINGS.values(), *(kind.fields for kind in TASK_KINDS.values()))
    for field in fields
}
"""What the table of task fields calls elements and attributes."""

with raise_recursion_limit():
    pass  # the limit stays raised: Hypothesis complains about a test that raises it


SPECIFIED = set(
    re.findall(
        r"\w+",
        """description instructions system model criteria provider output_slot input_source output_format
        context_management inherit_context accumulate_data accumulation_format fresh_context
        file_paths path command context_description steps task inputs input context_relevance
        context_assembly primary_elements secondary_elements excluded_elements manual_xml
        disable_reparsing template name params returns call arg cond case
        director_evaluator_loop max_iterations director evaluator script_execution timeout
        termination_condition condition initial_value inner_task reduction_task""",
    )
)


def names(kind: str) -> set[str]:
    return {one.get("name", "") for one in SCHEMA.iter(f"{XS}{kind}") if one.get("name")}


def asked_for() -> Iterator[object]:
    """Yield the names of elements and attributes that the reader's calls ask for."""
    for path in READER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
                if called in {"child", "word", "setting", "boolean", "count", "seconds", "_role"}:
                    yield from (
                        one.value
                        for one in node.args
                        if isinstance(one, ast.Constant) and str(one.value).isidentifier()
                    )


def is_valid(document: str) -> bool:
    return bool(vocabulary().schema.validate(etree.fromstring(document)))


def test_the_schema_is_valid_xsd() -> None:
    etree.XMLSchema(SCHEMA)


def test_the_schema_has_every_element_of_the_protocol_documents() -> None:
    assert names("element") >= SPECIFIED


def test_every_element_attribute_and_type_is_explained() -> None:
    for kind in ("element", "attribute", "complexType", "simpleType"):
        for one in SCHEMA.iter(f"{XS}{kind}"):
            if one.get("name"):
                assert one.findtext(f"{XS}annotation/{XS}documentation"), (kind, one.get("name"))


def test_the_reader_asks_only_for_what_the_schema_has() -> None:
    asked = {*asked_for(), *TABLE}
    assert len(asked) > 40
    assert asked <= names("element") | names("attribute")
    assert REPEATABLE | NODES | set(ROOTS) <= names("element")


def test_the_reader_knows_every_word_of_the_schema() -> None:
    source = "\n".join(path.read_text() for path in READER.glob("*.py"))
    words = names("element") | names("attribute")
    # the child that the source of file_paths names is passed on under its own name
    unread = {word for word in words - TABLE if f'"{word}"' not in source}
    assert unread == {"context_description"}


def test_documents_are_the_global_elements() -> None:
    assert set(vocabulary().roots) == set(ROOTS)


@batched("document", [document for document, _ in REFUSED], ids=range(len(REFUSED)))
def test_our_own_rules_say_it_before_the_schema_does(document: str) -> None:
    assert "schema-error" not in {one.code for one in problems(document)}


def test_the_order_of_children_is_free() -> None:
    children = ["<description>d</description>", "<model>m</model>", "<inputs><input name='a'/></inputs>"]
    for order in (children, children[::-1], [children[1], children[0], children[2]]):
        assert problems(f"<task>{''.join(order)}</task>") == []


WORDS = sorted(names("element") | {"unknown"})
ATTRIBUTES = sorted(names("attribute") | {"unknown", "xml:lang"})
VALUES = [
    "",
    "x",
    "true",
    "1",
    "0",
    "-1",
    " full ",
    "json",
    "atomic",
    "sequential",
    "reduce",
    "a,b",
    "{{a}}",
    "output.a",
]
texts = st.sampled_from(VALUES)


attributes = st.dictionaries(st.sampled_from(ATTRIBUTES), texts, max_size=2)


def written(tag: str, attributes: dict[str, str], text: str, children: list[str]) -> str:
    inside = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"<{tag}{inside}>{text}{''.join(children)}</{tag}>"


leaves = st.builds(written, st.sampled_from(WORDS), attributes, texts, st.just([]))
inner = st.recursive(
    leaves,
    lambda inside: st.builds(
        written, st.sampled_from(WORDS), attributes, texts, st.lists(inside, max_size=3)
    ),
    max_leaves=8,
)
documents = st.builds(written, st.sampled_from(ROOTS), attributes, texts, st.lists(inner, max_size=4))


@given(documents)
@settings(max_examples=examples(200), deadline=None)
def test_what_the_schema_refuses_is_refused_in_our_own_words(document: str) -> None:
    told = problems(document)
    if not is_valid(document):
        assert told
    assert "schema-error" not in {one.code for one in told}


NUMBERS_AND_BOOLEANS = [
    '<task timeout="{}"><description>d</description></task>',
    '<task reuse="{}"><description>d</description></task>',
    "<task><description>d</description><timeout>{}</timeout></task>",
    "<task><description>d</description><max_depth>{}</max_depth></task>",
    "<task><description>d</description><manual_xml>{}</manual_xml></task>",
    '<task><description>d</description><history use="{}"/></task>',
    '<task><description>d</description><history turns="{}"/></task>',
]
ODD = ["true", "false", "1", "0", "007", "+3", "-3", "1.", ".5", "1e3", "9" * 20, "True"]
ODD += ["", " true ", "\u00a0true", "\u0661", "0.0"]  # white space and digits that are not XML's


@pytest.mark.parametrize("document", NUMBERS_AND_BOOLEANS)
def test_the_reader_takes_the_numbers_and_booleans_that_the_schema_takes(document: str) -> None:
    for value in ODD:
        written = document.format(value)
        assert (problems(written) == []) == is_valid(written), written
