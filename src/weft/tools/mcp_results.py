"""What an MCP server's tool gave, as JSON."""

from typing import TYPE_CHECKING, Any

from weft.evaluator.tools import ToolFailed

if TYPE_CHECKING:
    from mcp_types import CallToolResult


def value_of(result: "CallToolResult") -> Any:
    """The structured content if there is any, else the text; raises ToolFailed when the tool says it failed.

    What is no text (images, sound, files) is not passed on, and that is said.
    """
    parts = [part.model_dump(mode="json", by_alias=True, exclude_none=True) for part in result.content]
    text = "\n".join(_text(part) for part in parts)
    if result.is_error:
        raise ToolFailed(text or "the tool failed and did not say why")
    if result.structured_content is None:
        return text
    omitted = [_text(part) for part in parts if _is_omitted(part)]
    return (
        {"content": result.structured_content, "omitted": omitted} if omitted else result.structured_content
    )


def _is_omitted(part: dict[str, Any]) -> bool:
    return part["type"] != "text" and "text" not in part.get("resource", {})


def _text(part: dict[str, Any]) -> str:
    match part:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case {"type": "resource", "resource": {"uri": uri, "blob": str(blob)}}:
            return f"[file {uri} of about {len(blob) * 3 // 4} bytes is left out]"
        case {"type": "resource_link", "uri": uri}:
            return f"[link to {uri}]"
        case {"type": kind, "data": str(data)}:
            return f"[{part.get('mimeType', kind)} of about {len(data) * 3 // 4} bytes is left out]"
        case _:
            return f"[{part.get('type')} is left out]"
