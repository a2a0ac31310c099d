"""Schema files that become part of a template."""

import pytest

from weft.language.ast import Program, Template
from weft.language.diagnostics import InvalidProgram
from weft.language.reading import read_text
from weft.language.schemas import with_inlined_schemas
from weft.language.sexp.printer import print_program

FILES = {"a.json": '{"type": "object", "minProperties": 1}', "b.json": "true", "bad.json": "{"}


def read(path: str, source: str) -> str:
    assert source == "<test>"
    if path not in FILES:
        raise FileNotFoundError(2, "No such file or directory")
    return FILES[path]


def template_of(text: str) -> Template:
    (template,) = read_text(text, "<test>").forms
    assert isinstance(template, Template)
    return template


def test_files_are_inlined_wherever_a_shape_stands() -> None:
    text = """(template t ((x "b.json" 1)) :returns "a.json"
      (sequential (task :instructions "{{x}}" :output "json" :schema "a.json")))"""

    inlined = with_inlined_schemas(template_of(text), read)

    printed = print_program(Program((inlined,)))
    assert printed.count("minProperties") == 2
    assert ".json" not in printed
    assert read_text(printed, "<test>").forms == (inlined,)


def test_a_template_that_names_no_file_stays_the_same() -> None:
    template = template_of('(deftask t (x) :instructions "{{x}}" :output "json" :schema "string[]")')

    assert with_inlined_schemas(template, read) is template


@pytest.mark.parametrize(("path", "said"), [("c.json", "No such file"), ("bad.json", "truncated")])
def test_a_file_that_cannot_be_read_is_a_problem_at_its_task(path: str, said: str) -> None:
    template = template_of(f'(deftask t (x) :instructions "{{{{x}}}}" :output "json" :schema "{path}")')

    with pytest.raises(InvalidProgram, match=said) as refused:
        with_inlined_schemas(template, read)
    assert refused.value.found[0].code == "bad-value"
