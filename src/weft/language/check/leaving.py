"""Values that leave the program must be JSON: inputs, arguments that a prompt shows, outputs of steps."""

from weft.language.check.constants import kind_of
from weft.language.check.findings import Findings
from weft.language.check.scopes import Frame
from weft.language.tree import (
    Atomic,
    Begin,
    DirectorEvaluatorLoop,
    Node,
    Reduce,
    Script,
    Sequential,
    TaskNode,
    Template,
    Text,
    Variable,
)


def texts_of(node: TaskNode) -> list[Text]:
    """Every text of a task that may have placeholders."""
    files = node.file_paths
    found = [node.description, node.instructions, node.system]
    if files is not None:
        found += [files.text, *files.paths]
    if isinstance(node, Script):
        found += [node.shell, *node.argv]
    return [text for text in found if text is not None]


def is_function(node: Node | None, frame: Frame) -> bool:
    """Whether a node certainly gives a function, which is no JSON."""
    while isinstance(node, Begin) and node.items:
        node = node.items[-1]
    return kind_of(node, frame) == "a function"


def check_json(node: Node | None, what: str, frame: Frame, findings: Findings) -> None:
    """Note a function where a value leaves the program."""
    if node is not None and is_function(node, frame):
        findings.note(node.span, "wrong-type", f"{what} is a function, which cannot leave the program")


def leaves(template: Template, name: str) -> bool:
    """Whether an argument of a template certainly leaves the program: it is shown, or passed to a step."""
    body = template.body
    if isinstance(body, Atomic | Script):
        shown = (part for text in texts_of(body) for part in text.parts if isinstance(part, Variable))
        own = {one.name for one in body.inputs}
        return name not in own and any(part.name == name for part in shown)
    return not isinstance(body, Sequential | Reduce | DirectorEvaluatorLoop)
