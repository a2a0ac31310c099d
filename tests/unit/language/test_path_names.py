"""Which values given to a program are paths of files."""

import pytest

from weft.language.file_paths import find_path_names
from weft.language.reading import read_text

REVIEW = '(deftask review (path) :instructions "Review {{path}}" :files ("{{path}}")) '
XML = """<task><instructions>a</instructions>
<inputs><input name="one" from="which"/></inputs>
<file_paths><path>{{one}}</path></file_paths></task>"""


@pytest.mark.parametrize(
    "text",
    [
        '(task :instructions "a" :files ("{{which}}"))',
        f"{REVIEW} (review which)",
        f"{REVIEW} (review :path which)",
        f'{REVIEW} (review (fill "{{{{which}}}}"))',
        f"{REVIEW} (map review which)",
        f"{REVIEW} (map review (list which))",
        f"{REVIEW} (map (lambda (one) (review one)) which)",
        f"{REVIEW} ((lambda (one) (review one)) which)",
        f"{REVIEW} (let ((one which)) (review one))",
        f"{REVIEW} (define (look one) (review one)) (look which)",
        f'{REVIEW} (task :ref "review" :inputs ((path which)))',
        '(task :instructions "a" :inputs ((one which)) :files ("{{one}}"))',
        '(deftask ask () :instructions "a") (ask :files (list which))',
        XML,
    ],
)
def test_a_value_that_is_handed_on_to_a_path_is_one(text: str) -> None:
    assert "which" in find_path_names(read_text(text, "<text>").forms)


@pytest.mark.parametrize(
    "text",
    [
        '(task :instructions "About {{which}}" :files ("a.txt"))',
        f'{REVIEW} (deftask ask (path) :instructions "{{{{path}}}}") (ask which) (review "a.txt")',
        f'{REVIEW} (task :instructions "{{{{which}}}}")',
    ],
)
def test_other_values_are_none(text: str) -> None:
    assert "which" not in find_path_names(read_text(text, "<text>").forms)
