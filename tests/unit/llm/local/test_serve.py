"""What a served model does when its client goes away."""

import asyncio
import json
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from weft.llm.local.serve import model_app
from weft.llm.payload import HandlerPayload, ModelReply
from weft.llm.protocol import OnText


class Endless:
    """A model that says at most one word, and then works until it is stopped."""

    id = "local:endless"

    def __init__(self, *, word: str | None = None) -> None:
        self._word = word
        self.begun = asyncio.Event()
        self.stopped = asyncio.Event()

    async def request(
        self, payload: HandlerPayload, on_text: OnText | None = None, *, must_use_tool: bool = False
    ) -> ModelReply:
        self.begun.set()
        if self._word and on_text:
            on_text(self._word)
        try:
            return await asyncio.Future()
        finally:
            self.stopped.set()


class Client:
    """One request to the application, and what becomes of the connection."""

    def __init__(self, model: Endless, *, is_stream: bool, hears: bool = True) -> None:
        self._app: Any = model_app(model)  # type: ignore[arg-type]  # as much of one as is asked for
        self._hears = hears
        self.leaves = asyncio.Event()
        asked = {"messages": [{"role": "user", "content": "Go on."}], "stream": is_stream}
        self._body: bytes | None = json.dumps(asked).encode()

    async def run(self) -> None:
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "method": "POST",
            "path": "/v1/chat/completions", "query_string": b"", "headers": headers,
        }  # fmt: skip
        await self._app(scope, self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if not self._hears:
            raise OSError("the client has gone")


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_client_that_leaves_before_the_first_word_stops_the_model(is_stream: bool) -> None:
    model = Endless()
    client = Client(model, is_stream=is_stream)
    asking = asyncio.create_task(client.run())
    await model.begun.wait()

    client.leaves.set()

    await asyncio.wait_for(model.stopped.wait(), 30)
    await asking


async def test_a_client_that_leaves_before_the_first_event_is_sent_stops_the_model() -> None:
    model = Endless(word="And")

    with pytest.raises(ClientDisconnect):
        await Client(model, is_stream=True, hears=False).run()

    await asyncio.wait_for(model.stopped.wait(), 30)
