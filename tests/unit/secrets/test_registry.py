"""Texts without secrets."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.secret_forms import forms_of, is_told
from weft.llm.payload import ModelReply, Usage
from weft.secrets.references import is_secret_name, register_environment
from weft.secrets.registry import Registry, redact, redact_struct, register

KEY = "sk-proj-4Rk9/x+Zq7'Lw\"2\\Tn&é<0>"
PLAIN = "ghp_9fK2mX7qLw3ZrT8vBn5Y"


def registry(*values: str) -> Registry:
    made = Registry()
    for number, value in enumerate(values):
        assert made.register(value, f"KEY{number}")
    return made


def test_nothing_is_changed_while_nothing_is_registered() -> None:
    value = {"a": ["text"]}

    assert Registry().redact_json(value) is value
    assert not Registry().has_secrets


@pytest.mark.parametrize("value", [KEY, PLAIN, "123456", "pass word with spaces"])
def test_a_secret_shows_in_no_form(value: str) -> None:
    made = registry(value)
    for how, text in forms_of(value):
        shown = made.redact(f"before {text} after")

        assert "[secret KEY0]" in shown, how
        assert not is_told(value, shown), how


def test_what_is_around_stays() -> None:
    assert registry(PLAIN).redact(f"a{PLAIN}b {PLAIN}") == "a[secret KEY0]b [secret KEY0]"


@given(value=st.text(min_size=6, max_size=40), before=st.text(max_size=5), after=st.text(max_size=5))
def test_any_text_can_be_a_secret(value: str, before: str, after: str) -> None:
    made = Registry()
    if made.register(value, "K"):
        assert value.strip() not in made.redact(before + value + after).replace("[secret K]", "\0")


@given(
    value=st.binary(min_size=6, max_size=40),
    before=st.binary(max_size=8),
    after=st.binary(max_size=8),
)
def test_a_secret_shows_in_no_base64_text(value: bytes, before: bytes, after: bytes) -> None:
    import base64

    text = value.hex()
    made = registry(text)

    assert "[secret KEY0]" in made.redact(base64.b64encode(before + text.encode() + after).decode())


def test_a_secret_that_contains_another_is_replaced_as_a_whole() -> None:
    assert registry("abcdef", "abcdef-ghijkl").redact("abcdef-ghijkl abcdef") == "[secret KEY1] [secret KEY0]"


def test_short_values_are_no_secrets() -> None:
    made = Registry()

    assert not made.register("12345", "K")
    assert not made.register("  12345  ", "K")
    assert not made.register("secret", "K")
    assert not made.has_secrets


def test_redacting_twice_changes_nothing() -> None:
    made = registry(KEY, PLAIN)
    shown = made.redact(f"{KEY} {PLAIN}")

    assert made.redact(shown) == shown


def test_a_name_does_not_tell_the_value() -> None:
    made = Registry()
    made.register(PLAIN, f"name {PLAIN}")

    assert made.redact(PLAIN) == "[secret]"


def test_json_is_redacted_in_keys_lists_and_numbers() -> None:
    made = registry(PLAIN, "12345678")
    value = {PLAIN: [PLAIN, 1, None, True, {"n": 12345678}], "other": 1.5}

    assert made.redact_json(value) == {
        "[secret KEY0]": ["[secret KEY0]", 1, None, True, {"n": "[secret KEY1]"}],
        "other": 1.5,
    }


def test_json_without_secrets_is_the_same_object() -> None:
    value = {"a": [1, "x" * 100]}

    assert registry(PLAIN).redact_json(value) is value


def test_a_secret_that_was_cut_is_found_at_the_ends_of_a_text() -> None:
    made = registry(PLAIN)

    assert made.redact(f"said {PLAIN[:12]}") == "said [secret KEY0]"
    assert made.redact(f"{PLAIN[-12:]} was said") == "[secret KEY0] was said"
    assert made.redact(f"said {PLAIN[:4]}") == f"said {PLAIN[:4]}"


def test_the_lines_of_a_key_file_are_secrets_of_their_own() -> None:
    body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"
    made = registry(f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n")

    assert made.redact(f"line 2: {body}") == "line 2: [secret KEY0]"


def test_threads_may_register_at_the_same_time() -> None:
    made = Registry()
    values = [f"value-number-{number:03}" for number in range(100)]
    threads = [threading.Thread(target=made.register, args=(value, value[-3:])) for value in values]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert made.redact(" ".join(values)) == " ".join(f"[secret {value[-3:]}]" for value in values)


def test_names_of_secrets_are_known() -> None:
    secret = ["OPENAI_API_KEY", "GITHUB_TOKEN", "CLIENT_SECRET", "DB_PASSWORD", "API_KEY", "TOKEN"]
    secret += ["PGPASSWORD", "MYSQL_PWD", "SECRET_KEY", "STRIPE_SECRET_KEY", "PRIVATE_KEY", "GITLAB_PAT"]
    other = ["PATH", "TOKENIZERS_PARALLELISM", "KEYBOARD", "MAX_TOKENS", "SECRETS_DIR", "PWD", "OLDPWD"]

    assert [name for name in secret + other if is_secret_name(name)] == secret


def test_an_environment_has_secrets_by_name_and_by_value() -> None:
    register_environment(
        {
            "OPENAI_KEY": "sk-proj-4Rk9xZq7Lw2Tn",
            "SORT_KEY": "the-name-of-a-column",
            "DATABASE_URL": "postgresql://app:s%40fe-and-s0und!@db.example.org/shop",
            "HOME_URL": "https://example.org/@someone",
            "DB_PASSWORD": "postgres",
            "MAX_TOKEN": "100000100000100000",
            "GIT_PAT": "glpat-0123456789",
        }
    )

    assert redact("sk-proj-4Rk9xZq7Lw2Tn glpat-0123456789") == "[secret OPENAI_KEY] [secret GIT_PAT]"
    assert redact("s@fe-and-s0und! s%40fe-and-s0und!") == "[secret DATABASE_URL] [secret DATABASE_URL]"
    left = "postgres 100000100000100000 the-name-of-a-column db.example.org example.org/@someone"
    assert redact(left) == left


def test_a_number_is_a_secret_only_as_a_whole() -> None:
    made = registry("100000")
    value = {"a": 2100000.5, "b": [1000001, 100000, 100000.0], "c": "100000"}

    assert made.redact_json(value) == {
        "a": 2100000.5,
        "b": [1000001, "[secret KEY0]", 100000.0],
        "c": "[secret KEY0]",
    }


@given(st.lists(st.integers(1, 12), max_size=12))
def test_a_secret_that_comes_in_pieces_is_kept_back(sizes: list[int]) -> None:
    made = registry(PLAIN)
    text = f"it is {PLAIN}, and gh is no secret: gh {PLAIN}"
    shown, kept = "", ""
    for size in [*sizes, len(text)]:
        piece, text = text[:size], text[size:]
        kept += piece
        start = made.partial_match_start(kept)
        shown += made.redact(kept[:start])
        kept = kept[start:]

    assert shown + made.redact(kept) == "it is [secret KEY0], and gh is no secret: gh [secret KEY0]"


def test_nothing_is_kept_back_while_no_secret_can_have_begun() -> None:
    assert registry(PLAIN).partial_match_start("hello there") == len("hello there")
    assert Registry().partial_match_start(PLAIN) == len(PLAIN)


def test_the_numbers_of_a_struct_stay_numbers() -> None:
    register("98765432", "NUMBER")
    usage = Usage(input_tokens=98765432)

    assert redact_struct(ModelReply(text="98765432", usage=usage, model="m:m")) == ModelReply(
        text="[secret NUMBER]", usage=usage, model="m:m"
    )


def test_values_that_nobody_can_print_are_left_alone() -> None:
    made = registry(PLAIN)
    value = {"n": 10**5000, "text": PLAIN}

    assert made.redact_json(value) == {"n": 10**5000, "text": "[secret KEY0]"}
