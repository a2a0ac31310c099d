"""The http executor: real servers on the loopback address, friendly and hostile."""

import asyncio
import gzip
import socket
import ssl
import subprocess
import time
import tracemalloc
import zlib
from collections.abc import Sequence
from pathlib import Path

import httpcore2
import jsonschema_rs
import pytest

from tests.executor_work import run, work_of
from tests.http_server import Answer, Request, answering, send, serving
from weft.config.sections import HttpSettings
from weft.executors import ExecutionFailed
from weft.executors.http import Http
from weft.executors.http_client import Resolve
from weft.tasks.record import JsonObject

LOCAL = HttpSettings(allow_private=True)
DEADLINE_SECONDS = 20


async def to_loopback(host: str, port: int) -> Sequence[str]:
    """Resolve every name to this machine."""
    return ["127.0.0.1"]


def http(
    settings: HttpSettings = LOCAL, resolve: Resolve | None = None, tls: ssl.SSLContext | None = None
) -> Http:
    return Http(settings, resolve=resolve, tls=tls)


async def failure(executor: Http, inputs: JsonObject) -> ExecutionFailed:
    with pytest.raises(ExecutionFailed) as caught:
        await asyncio.wait_for(run(executor, inputs), DEADLINE_SECONDS)
    return caught.value


# What it does


async def test_the_result_has_the_status_the_headers_and_the_text() -> None:
    async with serving(answering("héllo".encode(), headers=("Content-Type: text/plain", "X-A: 1"))) as server:
        result = await run(http(), {"url": f"{server.url}/path?q=1"})

    assert result["status"] == 200
    assert result["text"] == "héllo"
    assert result["headers"]["x-a"] == "1"
    assert result["url"] == f"{server.url}/path?q=1"
    assert (result["truncated"], result["redirects"]) == (False, 0)
    assert server.requests[0].target == "/path?q=1"


@pytest.mark.parametrize(
    ("kind", "body", "content"),
    [
        ("application/json", b'{"a": [1]}', {"json": {"a": [1]}}),
        ("application/problem+json; charset=utf-8", b"null", {"json": None}),
        ("application/json", b"not json", {"text": "not json"}),
        ("application/json", b"[" * 100_000, {"text": "[" * 100_000}),
        ("text/html; charset=iso-8859-1", b"\xe9", {"text": "é"}),
        ("text/html; charset=idna", b"a", {"text": "a"}),
        ("text/html; charset=zlib", b"a", {"text": "a"}),
        ("text/plain", b"\xff", {"text": "\N{REPLACEMENT CHARACTER}"}),
        ("image/png", b"\x89PNG", {"base64": "iVBORw=="}),
        ("", b"", {"text": ""}),
    ],
)
async def test_the_body_is_given_as_what_it_is(kind: str, body: bytes, content: JsonObject) -> None:
    async with serving(answering(body, headers=(f"Content-Type: {kind}",))) as server:
        result = await run(http(), {"url": server.url})

    assert {name: result[name] for name in ("json", "text", "base64") if name in result} == content
    assert jsonschema_rs.Draft7Validator(Http.output_schema).is_valid(result)


async def test_the_request_is_what_the_inputs_say() -> None:
    async with serving(answering()) as server:
        await run(
            http(),
            {
                "url": f"{server.url}/a?x=1",
                "method": "POST",
                "params": {"y": "b c", "z": [1, 2]},
                "json": {"k": None},
                "headers": {"Authorization": "Bearer t"},
            },
        )
        await run(http(), {"url": server.url, "method": "PUT", "body": "héllo"})

    posted, put = server.requests
    assert posted.method == "POST"
    assert posted.target in {"/a?x=1&y=b+c&z=1&z=2", "/a?x=1&y=b%20c&z=1&z=2"}
    assert posted.body == b'{"k":null}'
    assert posted.headers["content-type"] == "application/json"
    assert posted.headers["authorization"] == "Bearer t"
    assert posted.headers["host"] == f"127.0.0.1:{server.port}"
    assert posted.headers["user-agent"].startswith("weft/")
    assert put.body == "héllo".encode()


@pytest.mark.parametrize(
    ("status", "is_permanent"),
    [
        ("400 Bad Request", True),
        ("401 Unauthorized", True),
        ("404 Not Found", True),
        ("408 Request Timeout", False),
        ("425 Too Early", False),
        ("429 Too Many Requests", False),
        ("500 Internal Server Error", False),
        ("503 Service Unavailable", False),
    ],
)
async def test_an_error_status_fails_the_task(status: str, is_permanent: bool) -> None:
    async with serving(answering(b"why", status=status)) as server:
        error = await failure(http(), {"url": f"{server.url}/x?key=secret"})

    assert error.message == f"GET {server.url}/x returned {status}"
    assert error.is_permanent is is_permanent
    assert (error.details["status"], error.details["text"]) == (int(status[:3]), "why")


@pytest.mark.parametrize("more", [{"check": False}, {"expect_status": 404}, {"expect_status": [200, 404]}])
async def test_an_error_status_that_is_expected_completes_the_task(more: JsonObject) -> None:
    async with serving(answering(status="404 Not Found")) as server:
        assert (await run(http(), {"url": server.url, **more}))["status"] == 404


async def test_a_good_status_that_is_not_expected_fails_the_task() -> None:
    async with serving(answering()) as server:
        error = await failure(http(), {"url": server.url, "expect_status": 201})

    assert "returned 200" in error.message


async def test_a_connection_that_fails_may_be_tried_again() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        error = await failure(http(), {"url": f"http://127.0.0.1:{taken.getsockname()[1]}/"})

    assert not error.is_permanent


async def test_a_name_that_does_not_resolve_may_be_tried_again() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    error = await failure(http(resolve=resolve), {"url": "http://nowhere.test/"})

    assert "nowhere.test cannot be resolved" in error.message
    assert not error.is_permanent


async def test_an_answer_that_breaks_off_may_be_tried_again() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")

    async with serving(answer) as server:
        assert not (await failure(http(), {"url": server.url})).is_permanent


async def test_the_second_address_is_tried_when_the_first_does_not_answer() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.2", "127.0.0.1"]

    async with serving(answering(b"here")) as server:
        result = await run(http(resolve=resolve), {"url": f"http://two.test:{server.port}/"})

    assert result["text"] == "here"


# Where it may go


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::]",
    ],
)
async def test_this_machine_is_refused_by_default(host: str) -> None:
    async with serving(answering(b"secret")) as server:
        error = await failure(http(HttpSettings()), {"url": f"http://{host}:{server.port}/"})

    assert "may not be called" in error.message
    assert "allow_hosts" in error.message
    assert error.is_permanent
    assert server.connections == 0


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "2002:a00:1::1",
        "fd00::1",
    ],
)
async def test_a_name_of_a_private_address_is_refused(address: str) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return [address]

    error = await failure(http(HttpSettings(), resolve), {"url": "https://innocent.test/"})

    assert f"innocent.test may not be called: {address} is a" in error.message
    assert error.is_permanent


async def test_the_metadata_address_stays_refused_with_private_ones_allowed() -> None:
    error = await failure(http(LOCAL), {"url": "http://169.254.169.254/latest/meta-data/"})

    assert "a link-local address" in error.message


@pytest.mark.parametrize("entry", ["intranet.test", "INTRANET.test"])
async def test_a_host_that_is_allowed_may_be_called(entry: str) -> None:
    async with serving(answering(b"in")) as server:
        executor = http(HttpSettings(allow_hosts=(entry,)), to_loopback)

        assert (await run(executor, {"url": f"http://intranet.test:{server.port}/"}))["text"] == "in"
        assert (
            "may not be called"
            in (await failure(executor, {"url": f"http://other.test:{server.port}/"})).message
        )


async def test_a_host_may_be_allowed_on_one_port_only() -> None:
    async with serving(answering(b"in")) as server:
        executor = http(HttpSettings(allow_hosts=(f"127.0.0.1:{server.port}",)))

        assert (await run(executor, {"url": server.url}))["text"] == "in"
        assert "may not be called" in (await failure(executor, {"url": "http://127.0.0.1:1/"})).message


async def test_the_address_that_was_checked_is_the_one_that_is_called() -> None:
    """A resolver that gives a public address first and this machine then: the second is never asked for."""
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["192.0.2.1"] if len(asked) == 1 else ["127.0.0.1"]

    connected: list[str] = []

    async def connect(self: object, host: str, port: int, **more: object) -> None:
        connected.append(host)
        raise httpcore2.ConnectError("not in a test")

    executor = http(HttpSettings(allow_hosts=("rebind.test",)), rebinding)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connect)
        await failure(executor, {"url": "http://rebind.test/"})

    assert asked == ["rebind.test"]
    assert connected == ["192.0.2.1"]


async def test_a_private_address_among_public_ones_is_never_called() -> None:
    async def mixed(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1", "1.1.1.1", "::1"]

    connected: list[str] = []

    async def connect(self: object, host: str, port: int, **more: object) -> None:
        connected.append(host)
        raise httpcore2.ConnectError("not in a test")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connect)
        await failure(http(HttpSettings(), mixed), {"url": "http://mixed.test/"})

    assert connected == ["1.1.1.1"]


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(answering(b"proxied")) as proxy, serving(answering(b"direct")) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)

        assert (await run(http(), {"url": server.url}))["text"] == "direct"
        assert proxy.connections == 0


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("file:///etc/passwd", "only http and https"),
        ("ftp://127.0.0.1/", "only http and https"),
        ("gopher://127.0.0.1:70/_x", "only http and https"),
        ("javascript:alert(1)", "only http and https"),
        ("/relative", "only http and https"),
        ("http://", "only http and https"),
        ("http:///path", "only http and https"),
        ("//127.0.0.1/", "only http and https"),
        ("http://user:pass@127.0.0.1/", "user or password"),
        ("http://a b/", "not a URL"),
        ("http://[::1/", "not a URL"),
        ("http://127.0.0.1:99999/", "not a URL"),
        ("http://127.0.0.1:0/", "not a URL"),
        ("http://a_b%2f.test/", "not a URL"),
        ("http://127.0.0.1\\@a.test/", "user or password"),
        ("http://127.0.0.1/\r\nX: y", "not a URL"),
    ],
)
async def test_other_urls_are_refused_for_good(url: str, reason: str) -> None:
    error = await failure(http(), {"url": url})

    assert reason in error.message
    assert error.is_permanent


# What it sends


@pytest.mark.parametrize(
    "headers",
    [
        {"X-A": "1\r\nX-B: 2"},
        {"X-A": "1\nX-B: 2"},
        {"X-A": "1\0"},
        {"X-A": "é"},
        {"X-A\r\nX-B": "1"},
        {"X A": "1"},
        {"": "1"},
        {"Host": "other"},
        {"content-length": "5"},
        {"Transfer-Encoding": "chunked"},
        {"Proxy-Authorization": "x"},
    ],
)
async def test_headers_that_would_make_another_request_are_refused(headers: dict[str, str]) -> None:
    async with serving(answering()) as server:
        error = await failure(http(), {"url": server.url, "headers": headers})

    assert "header" in error.message
    assert error.is_permanent
    assert server.requests == []


async def test_a_body_is_json_or_text_not_both() -> None:
    assert (await failure(http(), {"url": "http://127.0.0.1/", "json": 1, "body": ""})).is_permanent
    with pytest.raises(ExecutionFailed, match="not both"):
        await http().execute(work_of({"url": "http://127.0.0.1/", "json": 1, "body": ""}))


# Redirects


async def test_a_redirect_is_followed_and_the_last_url_is_told() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.target == "/old":
            await send(writer, status="301 Moved", headers=("Location: /new",))
        else:
            await send(writer, b"here")

    async with serving(answer) as server:
        result = await run(http(), {"url": f"{server.url}/old"})

    assert (result["text"], result["url"], result["redirects"]) == ("here", f"{server.url}/new", 1)


async def test_a_redirect_is_an_answer_when_it_is_not_to_be_followed() -> None:
    async with serving(answering(status="302 Found", headers=("Location: /x",))) as server:
        result = await run(http(), {"url": server.url, "follow_redirects": False})

    assert (result["status"], result["headers"]["location"]) == (302, "/x")


@pytest.mark.parametrize(
    ("status", "method", "then", "body"),
    [
        ("301 Moved", "POST", "GET", b""),
        ("303 See Other", "PUT", "GET", b""),
        ("307 Temporary Redirect", "POST", "POST", b"x"),
        ("308 Permanent Redirect", "PUT", "PUT", b"x"),
        ("302 Found", "HEAD", "HEAD", b""),
    ],
)
async def test_a_redirect_keeps_or_changes_the_method(
    status: str, method: str, then: str, body: bytes
) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.target == "/old":
            await send(writer, status=status, headers=("Location: /new",))
        else:
            await send(writer)

    inputs: JsonObject = {"method": method} if method == "HEAD" else {"method": method, "body": "x"}
    async with serving(answer) as server:
        await run(http(), {"url": f"{server.url}/old", **inputs})

    assert (server.requests[1].method, server.requests[1].body) == (then, body)


async def test_a_redirect_to_a_private_address_is_refused() -> None:
    async with serving(answering(b"secret")) as inside:
        redirect = answering(status="302 Found", headers=(f"Location: http://localhost:{inside.port}/",))
        async with serving(redirect) as outside:
            executor = http(HttpSettings(allow_hosts=(f"127.0.0.1:{outside.port}",)))
            error = await failure(executor, {"url": outside.url})

    assert "localhost may not be called" in error.message
    assert error.is_permanent
    assert inside.connections == 0


@pytest.mark.parametrize(
    "to", ["file:///etc/passwd", "ftp://127.0.0.1/", "http://user:p@127.0.0.1/", "http://a b/"]
)
async def test_a_redirect_to_what_is_no_web_address_is_refused(to: str) -> None:
    async with serving(answering(status="302 Found", headers=(f"Location: {to}",))) as server:
        error = await failure(http(), {"url": server.url})

    assert error.is_permanent
    assert server.connections == 1


async def test_redirects_in_a_circle_end() -> None:
    async with serving(answering(status="302 Found", headers=("Location: /again",))) as server:
        error = await failure(http(), {"url": server.url})

    assert "more than 10 redirects" in error.message
    assert error.is_permanent
    assert server.connections == 11


SECRETS = {"Authorization": "Bearer t", "Cookie": "session=t", "X-Api-Key": "t", "Accept": "text/x"}


async def test_secrets_do_not_follow_a_redirect_to_another_origin() -> None:
    async with serving(answering()) as other:
        redirect = answering(status="307 Temporary", headers=(f"Location: {other.url}/",))
        async with serving(redirect) as server:
            await run(http(), {"url": server.url, "headers": SECRETS})

    (got,) = other.requests
    assert got.headers["accept"] == "text/x"
    assert got.headers["host"] == f"127.0.0.1:{other.port}"
    assert not {"authorization", "cookie", "x-api-key"} & set(got.headers)


async def test_headers_follow_a_redirect_within_their_origin() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.target == "/old":
            await send(writer, status="302 Found", headers=("Location: /new", "Set-Cookie: tracked=1"))
        else:
            await send(writer)

    async with serving(answer) as server:
        await run(http(), {"url": f"{server.url}/old", "headers": SECRETS})

    assert server.requests[1].headers["authorization"] == "Bearer t"
    assert server.requests[1].headers["cookie"] == "session=t"


# What it takes in


async def test_an_answer_that_is_too_long_is_cut() -> None:
    async with serving(answering("é".encode() * 100, headers=("Content-Type: text/plain",))) as server:
        result = await run(http(), {"url": server.url, "max_bytes": 5})

    assert (result["text"], result["truncated"]) == ("éé", True)


async def test_an_answer_of_just_the_limit_is_whole() -> None:
    async with serving(answering(b"12345")) as server:
        result = await run(http(), {"url": server.url, "max_bytes": 5})

    assert (result["text"], result["truncated"]) == ("12345", False)


async def test_an_answer_without_end_is_cut() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    async with serving(answer) as server:
        result = await asyncio.wait_for(
            run(http(), {"url": server.url, "max_bytes": 1_000_000}), DEADLINE_SECONDS
        )

    assert (len(result["text"]), result["truncated"]) == (1_000_000, True)


async def test_a_small_answer_that_unpacks_to_a_gigabyte_is_cut_as_it_unpacks() -> None:
    bomb = gzip_of_zeros(1 << 30)

    async with serving(
        answering(bomb, headers=("Content-Encoding: gzip", "Content-Type: text/plain"))
    ) as server:
        await run(http(), {"url": server.url, "max_bytes": 1})
        tracemalloc.start()
        result = await run(http(), {"url": server.url, "max_bytes": 100_000})
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert (len(result["text"]), result["truncated"]) == (100_000, True)
    assert peak < 20_000_000


def gzip_of_zeros(size: int) -> bytes:
    packer = zlib.compressobj(1, wbits=31)
    piece = bytes(1 << 20)
    return b"".join([*(packer.compress(piece) for _ in range(size >> 20)), packer.flush()])


@pytest.mark.parametrize("encodings", [("gzip, gzip",), ("gzip", "gzip")])
async def test_an_answer_packed_more_than_once_is_refused(encodings: tuple[str, ...]) -> None:
    packed = gzip.compress(gzip.compress(b"x"))
    headers = tuple(f"Content-Encoding: {encoding}" for encoding in encodings)

    async with serving(answering(packed, headers=headers)) as server:
        error = await failure(http(), {"url": server.url})

    assert "compressed 2 times" in error.message


async def test_an_answer_that_is_not_what_it_is_packed_as_fails() -> None:
    async with serving(answering(b"no gzip", headers=("Content-Encoding: gzip",))) as server:
        assert "failed" in (await failure(http(), {"url": server.url})).message


async def test_an_answer_that_drips_is_called_off_in_time() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.01)

    await expect_timeout(answer)


async def test_headers_that_drip_are_called_off_in_time() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nX: ")
        while True:
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.01)

    await expect_timeout(answer)


async def test_a_server_that_never_answers_is_called_off_in_time() -> None:
    is_over = asyncio.Event()

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        await is_over.wait()

    async with serving(answer) as server:
        error = await failure(http(), {"url": server.url, "timeout_seconds": 0.3})
        is_over.set()

    assert "no complete response within 0.3 s" in error.message


async def expect_timeout(answer: Answer) -> None:
    async with serving(answer) as server:
        before = time.monotonic()
        error = await failure(http(), {"url": server.url, "timeout_seconds": 0.3})

    assert "no complete response within 0.3 s" in error.message
    assert not error.is_permanent
    assert time.monotonic() - before < DEADLINE_SECONDS / 2


async def test_headers_without_end_are_refused() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"X: " + b"y" * 10_000 + b"\r\n")
            await writer.drain()

    async with serving(answer) as server:
        assert "failed" in (await failure(http(), {"url": server.url})).message


async def test_what_is_not_http_fails() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.test ESMTP\r\n")

    async with serving(answer) as server:
        assert not (await failure(http(), {"url": server.url})).is_permanent


async def test_cancelling_lets_go_of_the_connection() -> None:
    arrived, gone = asyncio.Event(), asyncio.Event()

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        try:
            while True:
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n" if not gone.is_set() else b".")
                await writer.drain()
                await asyncio.sleep(0.01)
        except ConnectionError:
            gone.set()

    async with serving(answer) as server:
        attempt = asyncio.ensure_future(run(http(), {"url": server.url}))
        await asyncio.wait_for(arrived.wait(), DEADLINE_SECONDS)
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
        await asyncio.wait_for(gone.wait(), DEADLINE_SECONDS)


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a certificate for the name right.test, and its key, in one file."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-batch"),
            *("-subj", "/CN=right.test", "-addext", "subjectAltName=DNS:right.test"),
            *("-keyout", folder / "key.pem", "-out", folder / "cert.pem"),
        ],
        check=True,
        capture_output=True,
    )
    (folder / "both.pem").write_bytes((folder / "key.pem").read_bytes() + (folder / "cert.pem").read_bytes())
    return folder / "both.pem"


def server_tls(certificate: Path, names: list[str | None]) -> ssl.SSLContext:
    """Return the server's context, which records the names that clients ask for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.sni_callback = lambda socket, name, context: names.append(name)
    return context


async def test_tls_asks_for_and_verifies_the_name_in_the_url(certificate: Path) -> None:
    names: list[str | None] = []
    trusting = ssl.create_default_context(cafile=str(certificate))

    async with serving(answering(b"safe"), tls=server_tls(certificate, names)) as server:
        executor = http(LOCAL, to_loopback, trusting)
        result = await run(executor, {"url": f"https://right.test:{server.port}/"})
        wrong = await failure(executor, {"url": f"https://wrong.test:{server.port}/"})

    assert result["text"] == "safe"
    assert server.requests[0].headers["host"] == f"right.test:{server.port}"
    assert names == ["right.test", "wrong.test"]
    assert "certificate" in wrong.message.lower()
    assert len(server.requests) == 1


async def test_a_certificate_nobody_vouches_for_is_refused(certificate: Path) -> None:
    async with serving(answering(b"safe"), tls=server_tls(certificate, [])) as server:
        error = await failure(http(LOCAL, to_loopback), {"url": f"https://right.test:{server.port}/"})

    assert "certificate" in error.message.lower()
    assert server.requests == []
