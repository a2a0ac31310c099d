"""Asks the runtime's own listener, on its socket, for what its Python functions do not offer."""

import http.client
import json
import socket
from pathlib import Path
from typing import Any

from weft.llm.errors import ModelError


class _SocketConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def post(path: Path, key: str, address: str, body: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request; raises ModelError."""
    connection = _SocketConnection(path)
    try:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request("POST", address, json.dumps(body), headers)
        response = connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ModelError("llm_error", f"the embedded model does not answer: {error}") from error
    finally:
        connection.close()
    if response.status != 200:
        raise ModelError("llm_error", f"the embedded model refused {address}: {answer.get('error')}")
    return answer
