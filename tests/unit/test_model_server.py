"""The provider that tests talk to says what providers say."""

import json

import httpx2
import pytest

from tests.model_server import ModelServer, asks_for, cuts, fails, hangs, says


def asked(**fields: object) -> dict[str, object]:
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}


def test_it_answers_lists_models_and_embeds(model_server: ModelServer) -> None:
    with httpx2.Client(base_url=model_server.base_url, trust_env=False) as client:
        answer = client.post("/chat/completions", json=asked()).json()
        models = client.get("/models").json()
        embedded = client.post("/embeddings", json={"model": "e", "input": ["ab", "c"]}).json()

    assert answer["choices"][0]["message"]["content"] == "hello"
    assert [model["id"] for model in models["data"]] == ["served-model"]
    assert [row["embedding"][0] for row in embedded["data"]] == [2.0, 1.0]
    assert [request.body["messages"][0]["content"] for request in model_server.requests] == ["hi"]


def test_a_stream_has_an_event_a_piece_and_the_usage(model_server: ModelServer) -> None:
    model_server.script(says("a", "b"))

    with httpx2.Client(base_url=model_server.base_url, trust_env=False) as client:
        text = client.post("/chat/completions", json=asked(stream=True)).text

    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    pieces = [choice["delta"].get("content", "") for event in events for choice in event["choices"]]
    assert pieces == ["", "a", "b", ""]
    assert events[-1]["usage"]["total_tokens"] == 18
    assert text.endswith("data: [DONE]\n\n")


def test_the_script_is_followed_fault_by_fault(model_server: ModelServer) -> None:
    model_server.script(fails(429, headers={"retry-after": "3"}), asks_for("look", "{no json"), cuts())

    with httpx2.Client(base_url=model_server.base_url, trust_env=False) as client:
        limited = client.post("/chat/completions", json=asked())
        called = client.post("/chat/completions", json=asked()).json()
        with pytest.raises(httpx2.RemoteProtocolError):
            client.post("/chat/completions", json=asked())

    assert (limited.status_code, limited.headers["retry-after"]) == (429, "3")
    assert called["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == "{no json"


def test_it_sees_that_a_client_has_gone(model_server: ModelServer) -> None:
    model_server.script(hangs())

    with (
        httpx2.Client(base_url=model_server.base_url, trust_env=False) as client,
        pytest.raises(httpx2.ReadTimeout),
    ):
        client.post("/chat/completions", json=asked(), timeout=0.2)

    model_server.wait_until(lambda: model_server.requests[0].is_abandoned)
    assert not model_server.requests[0].is_answered
