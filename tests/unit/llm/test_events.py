"""Events of steps that speak at the same time, as they are told and printed."""

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weft
from tests.secret_forms import shows_part
from weft.cli.display.model_events import ModelEventPrinter
from weft.effects.local import LocalEffects
from weft.llm.events import ModelEvent, RedactedEvents, RequestRetried, TextArrived, TurnEnded
from weft.llm.payload import Usage
from weft.llm.protocol import StaticModels
from weft.secrets.registry import register
from weft.testing import ScriptedModel

KEYS = ("sk-live-9fK2mX7qLw3ZrT8vBn5Y", "abcabcabcabc")
"""One of them begins again in itself."""


def pieces(text: str, sizes: list[int]) -> list[str]:
    found = []
    for size in sizes:
        found.append(text[:size])
        text = text[size:]
    return [*found, text]


speech = st.lists(st.sampled_from([*KEYS, KEYS[0][:6], "abc", "la ", "\n", "s"]), max_size=6).map("".join)
tasks = st.lists(
    st.tuples(speech, st.lists(st.integers(0, 7), max_size=12)).map(lambda made: pieces(*made)),
    min_size=1,
    max_size=4,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(tasks=tasks, chance=st.randoms(use_true_random=False))
def test_no_interleaving_shows_a_secret(
    tasks: list[list[str]], chance: Random, capsys: pytest.CaptureFixture[str]
) -> None:
    for key in KEYS:
        register(key, "K")
    printer = ModelEventPrinter()
    told: list[ModelEvent] = []

    def tell(event: ModelEvent) -> None:
        told.append(event)
        printer.print_event(event)

    capsys.readouterr()
    events = {str(number): RedactedEvents(tell) for number in range(len(tasks))}
    order = [str(number) for number, said in enumerate(tasks) for _ in said]
    chance.shuffle(order)
    left = {str(number): list(said) for number, said in enumerate(tasks)}
    for step in order:
        events[step].tell(TextArrived(step, left[step].pop(0)))
    for step, one in events.items():
        one.tell(TurnEnded(step, "m:m", 1, Usage()))
    printer.end()

    printed = capsys.readouterr().err
    for step in events:
        said = "".join(
            event.text for event in told if isinstance(event, TextArrived) and event.step_key == step
        )
        for key in KEYS:
            assert key not in said
    for key in KEYS:
        assert key not in printed


def test_pieces_of_two_steps_between_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    register(KEYS[0], "K")
    printer = ModelEventPrinter()
    one, two = RedactedEvents(printer.print_event), RedactedEvents(printer.print_event)
    for start in range(0, len(KEYS[0]), 4):
        one.tell(TextArrived("1", KEYS[0][start : start + 4]))
        two.tell(TextArrived("2", "la "))
    one.tell(TextArrived("1", " was it"))
    one.tell(TurnEnded("1", "m:m", 1, Usage()))
    printer.end()

    printed = capsys.readouterr().err
    assert printed == "la " * 7 + "\n[secret K] was it\n"
    assert not shows_part(KEYS[0], printed)


def test_other_events_are_redacted() -> None:
    register(KEYS[0], "K")
    told: list[ModelEvent] = []
    RedactedEvents(told.append).tell(RequestRetried("m:m", 1, 0.5, f"bad key {KEYS[0]}"))

    assert told == [RequestRetried("m:m", 1, 0.5, "bad key [secret K]")]


def test_a_program_is_told_no_secret() -> None:
    told: list[ModelEvent] = []
    model = ScriptedModel(lambda payload: f"it is {KEYS[0]}, yes")
    effects = LocalEffects(models=StaticModels(model), is_streaming=True, on_event=told.append)
    register(KEYS[0], "K")
    weft.evaluate('(task :instructions "Say it")', effects=effects)

    said = "".join(event.text for event in told if isinstance(event, TextArrived))
    assert said == "it is [secret K], yes"
