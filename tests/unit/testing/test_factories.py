"""What ships for the tests of users."""

import pytest

from weft import testing
from weft.app.evaluation import evaluate
from weft.llm.errors import ModelError


async def test_one_model_answers_for_every_name() -> None:
    model = testing.ScriptedModel(["x"])
    models = testing.models(model)

    assert await models.find(None) is model
    assert await models.find("openai:gpt", "anthropic") is model
    assert models.asked == [None, "anthropic:gpt"]


async def test_answers_become_a_scripted_model() -> None:
    for answers in (["x"], {"review": "x"}, lambda _: "x"):
        assert isinstance(await testing.models(answers).find("any"), testing.ScriptedModel)


async def test_models_are_found_by_name_and_the_first_is_the_default_one() -> None:
    one, other = testing.ScriptedModel([]), testing.ScriptedModel([])
    models = testing.models({"fast": one, "anthropic:good": other})

    assert await models.find(None) is one
    assert await models.find("openai:good", "anthropic") is other
    with pytest.raises(ModelError, match=r"there is no model 'slow' \(given: fast, anthropic:good\)"):
        await models.find("slow")


def test_effects_answer_as_told() -> None:
    effects = testing.effects({"greet": "Hello!"})

    assert evaluate('(deftask greet () :instructions "Greet.") (get (greet) "content")', effects=effects) == (
        "Hello!"
    )


def test_names_of_earlier_versions_stay() -> None:
    assert testing.GivenModels is testing.StaticModels
