"""Hostile XML is refused at once, and nothing in it takes effect."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.batches import batched
from tests.examples import examples
from tests.shared_files import shared
from weft.language.ast import Atomic, Literal
from weft.language.diagnostics import InvalidProgram, LanguageProblem
from weft.language.source import Source
from weft.language.traversal import raise_recursion_limit
from weft.language.xml import read_xml
from weft.language.xml.elements import MAX_ATTRIBUTES, MAX_ELEMENT_DEPTH
from weft.limits import MAX_PROGRAM_CHARACTERS

LIMIT_SECONDS = 0.1

with raise_recursion_limit():
    pass  # the limit stays raised: Hypothesis complains about a test that raises it

D = "<description>d</description>"


def refused(content: bytes) -> tuple[LanguageProblem, ...]:
    try:
        read_xml(Source("t.xml", ""), content)
    except InvalidProgram as error:
        return error.found
    return ()


def cpu_seconds(act: Callable[[], object]) -> float:
    """Return the shortest time of three, so that other processes on the machine do not count."""
    times = []
    for _ in range(3):
        started = time.process_time()
        act()
        times.append(time.process_time() - started)
    return min(times)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Yield a server on loopback that nobody may connect to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


@pytest.mark.parametrize("name", [path.name for path in sorted(shared("data", "xml-attacks").glob("*.xml"))])
def test_known_attacks_are_refused_at_once(name: str) -> None:
    content = shared("data", "xml-attacks", name).read_bytes()
    (problem,) = refused(content)
    harmless = {"simple.xml", "simple-ns.xml"}
    assert problem.code == ("unknown-element" if name in harmless else "xml-doctype")
    assert cpu_seconds(lambda: refused(content)) < LIMIT_SECONDS


BOMBS = {
    "depth": b"<task>" * (MAX_PROGRAM_CHARACTERS // 6),
    "depth in lines": b"<task>\n" * (MAX_PROGRAM_CHARACTERS // 7),
    "depth of steps": b'<task type="sequential"><steps>' * 100_000,
    "attributes": b"<task " + b" ".join(b'a%d=""' % n for n in range(20_000)) + b"/>",
    "laughs": b"<!DOCTYPE t [<!ENTITY a '%b'>]><task subtype='%b'/>" % (b"x" * 9999, b"&a;" * 99),
    "long name": b"<" + b"a" * 1_000_000 + b"/>",
    "long name inside": b"<task><" + b"a" * 1_000_000 + b"/></task>",
    "long value": b'<task type="' + b"a" * 1_000_000 + b'"/>',
    "not closed": b"<task" * 100_000,
    "size": b" " * (MAX_PROGRAM_CHARACTERS + 1),
    "problems": b"<task>" + b"<x/>" * 10_000 + b"</task>",
    "deep JSON": f"<task>{D}<output_format type='json'>{'{' * 100_000}</output_format></task>".encode(),
    "deep placeholder": f"<task><description>{{{{{'f(' * 10_000}</description></task>".encode(),
    "long condition": b'<cond><case test="' + b"(" * 100_000 + b'"/></cond>',
}  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_bombs_are_refused_at_once(bomb: bytes) -> None:
    assert refused(bomb)
    assert max(len(str(problem)) for problem in refused(bomb)) < 1_000
    assert cpu_seconds(lambda: refused(bomb)) < LIMIT_SECONDS


def test_elements_nest_to_a_bound_and_no_deeper() -> None:
    def nested(depth: int) -> bytes:
        """Return a document of that depth: two elements for each task around the innermost."""
        levels = (depth - 2) // 2
        around = '<task type="sequential"><steps>' * levels
        return f"{around}<task>{D}</task>{'</steps></task>' * levels}".encode()

    assert refused(nested(MAX_ELEMENT_DEPTH)) == ()
    (problem,) = refused(nested(MAX_ELEMENT_DEPTH + 2))
    assert problem.code == "program-too-deep"


def test_attributes_are_bounded() -> None:
    attributes = " ".join(f'a{n}=""' for n in range(MAX_ATTRIBUTES + 1))
    (problem,) = refused(f"<task {attributes}/>".encode())
    assert "more than 64 attributes" in problem.message


XSI = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
FETCHING = [
    '<!DOCTYPE task SYSTEM "URL/x.dtd"><task>D</task>',
    '<!DOCTYPE task [<!ENTITY % x SYSTEM "URL/x"> %x;]><task>D</task>',
    '<?xml-stylesheet href="URL/x.xsl" type="text/xsl"?><task>D</task>',
    f'<task {XSI} xsi:noNamespaceSchemaLocation="URL/x.xsd">D</task>',
    f'<task {XSI} xsi:schemaLocation="a URL/x">D</task>',
    '<task xmlns:xi="http://www.w3.org/2001/XInclude">D<xi:include href="URL/x"/></task>',
    '<task xml:base="URL">D<output_format type="json">{"$ref": "URL/x"}</output_format></task>',
    '<task>D<output_format type="json">{"$schema": "URL/x"}</output_format></task>',
]


@pytest.mark.parametrize("document", FETCHING, ids=range(len(FETCHING)))
def test_nothing_is_fetched(document: str, listener: socket.socket) -> None:
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    refused(document.replace("URL", url).replace(">D<", f">{D}<").encode())
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_no_file_is_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    for document in (
        f'<!DOCTYPE t [<!ENTITY x SYSTEM "{secret.as_uri()}">]><task><description>&x;</description></task>',
        f"<task><description>&x;</description><system>{secret}</system></task>",
        f'<task xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="{secret}" parse="text"/></task>',
    ):
        problems = refused(document.encode())
        assert problems
        assert "s3cret" not in " ".join(map(str, problems))


EXAMPLES = [path.read_bytes() for path in (Path(__file__).parents[2] / "examples").glob("*.xml")]
PIECES = st.one_of(
    st.binary(max_size=8), st.sampled_from([b"<", b">", b'"', b"&", b"{{", b"}}", b"<task>", b"</task>"])
)


@given(st.sampled_from(EXAMPLES), st.integers(0, 1000), st.integers(0, 40), PIECES)
@settings(max_examples=examples(300), deadline=None)
def test_a_damaged_document_is_read_or_refused(
    document: bytes, start: int, length: int, piece: bytes
) -> None:
    """Anything else that is raised fails the test."""
    for problem in refused(document[:start] + piece + document[start + length :]):
        assert problem.span.line >= 1
        assert problem.excerpt()


NAUGHTY: list[str] = json.loads(shared("data", "naughty-strings.json").read_text())


@batched("text", NAUGHTY, ids=range(len(NAUGHTY)))
def test_naughty_values_pass_unchanged_or_are_refused(text: str) -> None:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("\r", "&#13;")
    content = (
        f'<task>{D}<inputs><input name="x" xml:space="preserve">{escaped}</input></inputs></task>'.encode()
    )
    problems = refused(content)
    if problems:
        assert {problem.code for problem in problems} == {"syntax-error"}
        assert "{{" in text or any(not character.isprintable() for character in text)
        return
    (task,) = read_xml(Source("t.xml", ""), content).forms
    assert isinstance(task, Atomic)
    assert task.inputs[0].value == Literal(value=text)


@batched("text", NAUGHTY, ids=range(len(NAUGHTY)))
def test_naughty_names_are_names_or_refused(text: str) -> None:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    codes = {problem.code for problem in refused(f'<task ref="{escaped}"/>'.encode())}
    assert codes <= {"bad-value", "reserved-name", "syntax-error"}
