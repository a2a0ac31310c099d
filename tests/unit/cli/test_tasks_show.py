"""What `weft tasks show` says of the request of a step."""

from weft.cli.tasks.inspect import SHOWN_SOURCES, provenance_lines
from weft.tasks.steps import PromptPart, RequestFacts


def test_the_tokens_of_a_prompt_are_shown_by_kind_with_its_files_and_what_the_provider_reported() -> None:
    files = [PromptPart("files", f"src/{n}.py", "data", 400, tokens=100) for n in range(SHOWN_SOURCES + 1)]
    parts = (PromptPart("instructions", "prompt", "prompt", 80, 0, 20), *files)

    lines = provenance_lines(RequestFacts(parts, cache_read_tokens=64, first_token_seconds=0.125))

    assert lines[0] == f"prompt made of (estimated tokens): instructions 20, files {100 * len(files)}"
    assert lines[1:-1] == [f"  src/{n}.py" for n in range(SHOWN_SOURCES)]
    assert lines[-1] == "64 input tokens cached, first token after 0.12 s"


def test_a_step_without_facts_shows_nothing() -> None:
    assert provenance_lines(None) == provenance_lines(RequestFacts()) == []
