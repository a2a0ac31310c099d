"""The models that a program may ask are checked before its first effect."""

import pytest

from weft.config.sections import ModelsSettings, ProviderSettings
from weft.effects.asked_models import ModelUnusable, require_models
from weft.effects.checks import library_of
from weft.language.ast import Define
from weft.language.reading import read_text

SETTINGS = ModelsSettings(
    default="open:m",
    providers={
        "open": ProviderSettings(base_url="http://127.0.0.1:1/v1"),
        "locked": ProviderSettings(base_url="http://127.0.0.1:1/v1", api_key_env="NO_KEY"),
    },
)
JUDGE = '(deftask judge (director_result) :subtype "evaluator" :description "Judge style" :model "locked:m")'


def check(text: str, *, library: str = "", model: str | None = None) -> None:
    """Check a program beside a library."""
    forms = read_text(library, "<library>").forms
    functions = [form for form in forms if isinstance(form, Define)]
    require_models(
        read_text(text, "<text>").forms,
        library_of(forms),
        lambda: SETTINGS,
        {},
        model=model,
        functions=functions,
    )


@pytest.mark.parametrize(
    "text",
    [
        '(deftask ask () :instructions "a") (task :ref "ask" :model "locked:m")',
        '(deftask ask () :instructions "a" :model "open:m") (task :ref "ask" :provider "locked")',
        '(deftask ask () :instructions "a" :model "open:m") (ask :model "locked:m")',
        '(sequential :model "locked:m" (task :instructions "a"))',
        '(sequential :provider "locked" (task :instructions "a"))',
        '(deftask ask () :instructions "a") (sequential :model "locked:m" (map ask (list)))',
        f'{JUDGE} (director-evaluator-loop :criteria "style" :director (task :instructions "a"))',
        f'{JUDGE} (sequential (task :instructions "a") (task-cond :criteria "style" ("true" 1)))',
        '(task :instructions "a" :inputs ((b (task :instructions "b" :model "locked:m"))))',
        '(try (task :instructions "a") (catch e (task :instructions "b" :model "locked:m")))',
        '(if false (task :instructions "a" :model "locked:m") 1)',
    ],
)
def test_a_model_without_a_key_is_found_wherever_it_is_named(text: str) -> None:
    with pytest.raises(ModelUnusable, match="no key for 'locked'"):
        check(text)


def test_functions_of_libraries_are_looked_into() -> None:
    library = '(define (go) (ask)) (deftask ask () :instructions "a")'

    check("(+ 1 2)", library=library, model="locked:m")
    with pytest.raises(ModelUnusable, match="no key for 'locked'"):
        check("(go)", library=library, model="locked:m")


@pytest.mark.parametrize(
    "text",
    [
        '(deftask ask () :instructions "a") (task :ref "ask" :model "open:m")',
        '(deftask ask () :instructions "a") (ask :model "open:m")',
        '(deftask ask () :instructions "a" :model "locked:m") (ask :model "open:m")',
        '(deftask ask () :instructions "a") (let ((m "open:m")) (ask :model m))',
        '(sequential :model "open:m" (task :instructions "a"))',
        '(try (task :instructions "a") (catch e (task :instructions "b" :model "open:m")))',
    ],
)
def test_a_default_model_without_a_key_is_no_problem_where_nothing_asks_it(text: str) -> None:
    check(text, model="locked:m")


def test_a_model_that_is_misspelt_is_refused_also_inside_try() -> None:
    with pytest.raises(ModelUnusable, match="unknown model 'typo'"):
        check('(try (task :instructions "a") (catch e "caught"))', model="typo")
