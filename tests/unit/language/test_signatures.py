"""The JSON Schema of a template's arguments."""

import jsonschema_rs

from weft.language.ast import Template
from weft.language.reading import read_text
from weft.language.schemas import argument_schema


def schema_of(text: str) -> dict[str, object]:
    (template,) = read_text(text, "<test>").forms
    assert isinstance(template, Template)
    schema = argument_schema(template)
    jsonschema_rs.Draft7Validator(schema)
    return schema


def test_types_and_defaults_become_a_schema() -> None:
    assert schema_of('(template t (a (b string) (c number 3) (d "x")) (list a b c d))') == {
        "type": "object",
        "properties": {
            "a": {},
            "b": {"type": "string"},
            "c": {"type": "number", "default": 3},
            "d": {"default": "x"},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    }


def test_inputs_of_the_body_that_give_way_may_be_passed() -> None:
    schema = schema_of(
        '<template name="t" params="a"><task><instructions>{{a}} {{k}}</instructions>'
        '<inputs><input name="k">text</input></inputs></task></template>'
    )

    assert schema["properties"] == {"a": {}, "k": {}}
    assert schema["required"] == ["a"]


def test_a_type_that_refers_to_its_own_parts_is_left_to_the_call() -> None:
    inner = '{\\"$ref\\": \\"#/definitions/k\\", \\"definitions\\": {\\"k\\": {\\"type\\": \\"string\\"}}}'
    schema = schema_of(f'(template t ((a "{inner}" "x")) a)')

    assert schema["properties"] == {"a": {"default": "x"}}
