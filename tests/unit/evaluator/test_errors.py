"""Errors as XML: every kind fits the schema, and no text breaks the document."""

import json

import pytest
from lxml import etree

from tests.batches import batched
from tests.evaluation import value_of
from weft.evaluator.errors import TaskFailed, error_schema, error_xml
from weft.evaluator.results import (
    FAILURE_REASONS,
    InvalidOutput,
    ResourceExhaustion,
    TaskError,
    TaskFailure,
    ValidationFailure,
    XmlParseFailure,
)

HOSTILE = "]]> & <b> \x00 \x1b[31m \ud800 \uffff ä\r\n"

ERRORS: list[TaskError] = [
    ResourceExhaustion("turns", "no more", metrics={"used": 3, "limit": 3}, notes={"usage": {"tokens": 1}}),
    *(TaskFailure(reason, "it failed") for reason in FAILURE_REASONS),  # type: ignore[arg-type]
    TaskFailure("llm_error", HOSTILE, content=HOSTILE, details={HOSTILE: HOSTILE, "list": [1, None]}),
    InvalidOutput("wrong", content="x", violations=["one", HOSTILE]),
    ValidationFailure("wrong", path="model", invalid_model=True),
    XmlParseFailure("no XML", location="a.xml:1:2", content="<"),
]


@batched("error", ERRORS)
def test_an_error_as_xml_fits_the_schema(error: TaskError) -> None:
    schema = etree.XMLSchema(etree.fromstring(error_schema().encode()))
    document = etree.fromstring(error_xml(error).encode())

    assert schema.validate(document), schema.error_log
    assert document.findtext(".//message")


async def test_a_failed_task_can_be_told_as_xml() -> None:
    with pytest.raises(TaskFailed) as caught:
        await value_of("(let ((x 1)) (car x))")

    document = etree.fromstring(caught.value.as_xml())
    assert document.findtext("task_failure/reason") == "input_validation_failure"
    facts = {one.get("name"): one.text for one in document.iter("fact")}
    assert facts["failing_expression"] == "(car x)"
    assert json.loads(facts["s_expression_environment"] or "") == {"x": 1}
