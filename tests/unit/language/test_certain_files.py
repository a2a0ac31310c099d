"""Which files a program certainly reads."""

import pytest

from weft.language.file_paths import find_required_files
from weft.language.reading import read_text

FIRST = '(task :instructions "first") '
READS = '(task :instructions "a" :files ("a.txt"))'
REVIEW = '(deftask review (path) :instructions "a" :files ("{{path}}")) '
LOOP = """(director-evaluator-loop
  :director (task :instructions "b") :script (script :argv ("make")) :evaluator (task :instructions "c"))"""


def found(text: str, **given: object) -> list[str]:
    """Return the paths."""
    return [file.path for file in find_required_files(read_text(text, "<text>").forms, (), given)]


@pytest.mark.parametrize(
    "text",
    [
        f"{FIRST} {READS}",
        f"(sequential {FIRST} {READS})",
        f"(begin {FIRST} (let ((x 1)) (with-timeout 5 {READS})))",
        f'{FIRST} (task :instructions "b" :inputs ((x {READS})))',
        f'{REVIEW} {FIRST} (review "a.txt")',
        f'{REVIEW} {FIRST} (review :path "a.txt")',
        f'{REVIEW} {FIRST} (let ((p "a.txt")) (review p))',
        f'{REVIEW} {FIRST} (task :ref "review" :inputs ((path "a.txt")))',
        f"{REVIEW} {FIRST} (review given)",
        f'{FIRST} (task :instructions "b" :files ("{{{{given}}}}"))',
        f'{FIRST} (task :instructions "b" :inputs ((one given)) :files ("{{{{one}}}}"))',
    ],
)
def test_a_file_is_certain_where_its_task_is_performed_whatever_happens(text: str) -> None:
    assert found(text, given="a.txt") == ["a.txt"]


@pytest.mark.parametrize(
    "text",
    [
        f"{FIRST} (if given {READS} 1)",
        f"{FIRST} (and given {READS})",
        f"{FIRST} (try {READS} (catch e 1))",
        f"{FIRST} (map (lambda (x) {READS}) (list))",
        f"{FIRST} (define (later) {READS})",
        f'{FIRST} (sequential {FIRST} (task-cond ("output.ok == true" {READS})))',
        f'{FIRST} (task :instructions "b" :files (("a.txt" :optional true)))',
        f'{FIRST} (task :instructions "b" :files ("{{{{given}}}}")) (set! given "b.txt")',
        f'{REVIEW} {FIRST} (review "a.txt" :files (list "b.txt"))',
        f'{REVIEW} {FIRST} (let ((review (lambda (x) x))) (review "a.txt"))',
    ],
)
def test_a_file_is_not_certain_where_its_task_may_not_be_performed_or_may_do_without(text: str) -> None:
    assert found(text, given="a.txt") == []


@pytest.mark.parametrize(
    "maker",
    [
        '(script :argv ("make"))',
        '(system:write_file :path "a.txt" :content "x")',
        '(task :instructions "b" :tools ("system:write_file"))',
        '(task :instructions "b" :files (:command "make list"))',
        LOOP,
    ],
)
def test_nothing_is_certain_of_a_program_that_may_make_files(maker: str) -> None:
    assert found(f"{maker} {FIRST} {READS}") == []


def test_the_file_of_a_single_task_is_left_to_it() -> None:
    assert found(READS) == []


def test_templates_that_never_end_are_followed_for_a_while() -> None:
    forms = '(template f (p) (begin (task :instructions "a" :files ("a.txt")) (f (fill "{{p}}x")))) (f "a")'

    assert found(f"{FIRST} {forms}") == ["a.txt"]
