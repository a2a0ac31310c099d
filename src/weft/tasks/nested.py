"""The nested `{task, children}` form of a flow, as JSON text that `read_flow` reads back."""

from collections.abc import Iterator

import msgspec

from weft.limits import MAX_NESTED_DEPTH
from weft.tasks.flow import Flow
from weft.tasks.json_text import task_object
from weft.tasks.record import Task


def nested_json(flow: Flow) -> bytes:
    """The flow in the nested form; as a flat list when it is deeper than JSON readers go."""
    if max(depth for _, depth in flow.walk()) >= MAX_NESTED_DEPTH:
        return msgspec.json.format(msgspec.json.encode([task_object(task) for task in flow]), indent=2)
    return msgspec.json.format(b"".join(_pieces(flow)), indent=2)


def _pieces(flow: Flow) -> Iterator[bytes]:
    open_nodes = 0
    for task, depth in flow.walk():
        if depth < open_nodes:
            yield b"]}" * (open_nodes - depth)
            yield b","
        yield _opening(task)
        open_nodes = depth + 1
    yield b"]}" * open_nodes


def _opening(task: Task) -> bytes:
    return b'{"task":' + msgspec.json.encode(task_object(task)) + b',"children":['
