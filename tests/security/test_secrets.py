"""A secret is planted, and made to show wherever text leaves: nowhere is it found, in no form."""

import asyncio
import base64
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import command_line
from tests.command_line import Ran
from tests.http_server import Request, send, serving
from tests.model_server import ModelServer, asks_for, fails, says
from tests.secret_forms import is_told
from weft.app.evaluation import evaluate
from weft.effects.local import LocalEffects
from weft.errors import WeftError
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure
from weft.secrets.references import Secret, SecretTooShort
from weft.secrets.registry import redact
from weft.testing import effects
from weft.tools.mcp.config import read_servers

TOKEN = "wt/9Qz+x4R7'vK2\"mB&é8Lp0Yd"  # noqa: S105 - it opens nothing
HEADER_TOKEN = "hd-7Wb+2/Kq91\"xTz='Rm"  # noqa: S105 - it opens nothing, and a header can hold it
NAME = "DEPLOY_TOKEN"
MARK = f"[secret {NAME}]"

TELL = """
import base64, binascii, html, json, os, shlex, sys, urllib.parse
token = os.environ["TOLD"]
raw = token.encode()
forms = [token, json.dumps({"a": token}), json.dumps(json.dumps(token, ensure_ascii=False)), repr(token),
         repr(raw), urllib.parse.quote(token, safe=""), urllib.parse.urlencode({"k": token}),
         html.escape(token), shlex.quote(token), raw.hex(), raw.hex().upper()]
for before in (b"", b"a", b"user:"):
    forms += [base64.b64encode(before + raw).decode(), base64.urlsafe_b64encode(before + raw).decode()]
    forms += [base64.encodebytes(b"x" * 50 + before + raw + b"y" * 50).decode()]
print("\\n".join(forms), file=sys.stdout)
print("\\n".join(forms), file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""

JOBS = """
import logging
from weft.executors import ExecutionFailed

def returns(token):
    logging.getLogger("somebody.elses").warning("signing in with %s", token)
    return {"token": token, token: [token.encode().hex()], "ok": True}

def raises(token):
    try:
        raise KeyError(token)
    except KeyError:
        logging.getLogger("weft.jobs").exception("it failed with %r", token)
        raise

def refers():
    return {"given": {"token": {"$secret": "DEPLOY_TOKEN"}}}

def shows(token):
    return {"seen": token}

def fails(token):
    raise ExecutionFailed(f"the server refuses {token!r}", details={"token": token})
"""


SHELL = {"shell": True, "command": 'echo "$T"; echo "$T" >&2; exit 4', "env": {"T": {"$secret": NAME}}}

IN_A_LINE = {"shell": True, "command": {"$secret": NAME, "format": "echo {}"}}


def reference(**more: str) -> dict[str, str]:
    return {"$secret": NAME, **more}


def a_task(name: str, method: str, **inputs: Any) -> dict[str, Any]:
    return {
        "name": name,
        "schemas": {"method": method},
        "inputs": inputs,
        "params": {"retry": {"attempts": 2}},
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "weft.toml").write_text(
        f'[secrets]\nallow = ["{NAME}", "HEADER_TOKEN"]\n[executors.http]\nallow_private = true\n'
        '[executors.python]\nmodules = ["jobs"]\n'
    )
    (tmp_path / "jobs.py").write_text(JOBS)
    (tmp_path / "tell.py").write_text(TELL)
    return tmp_path


def weft(project: Path, *arguments: str, stdin: str = "", **environment: str) -> Ran:
    variables = {NAME: TOKEN, "HEADER_TOKEN": HEADER_TOKEN, **environment}
    return command_line.weft(*arguments, db=str(project / "weft.db"), stdin=stdin, cwd=project, **variables)


def flow(project: Path, url: str) -> list[dict[str, Any]]:
    """Every executor that could tell it, succeeding and failing."""

    def tell(name: str, code: str, **more: Any) -> dict[str, Any]:
        env = {"TOLD": reference()}
        return a_task(name, "command", argv=[sys.executable, "tell.py", code], env=env, **more)

    auth = {"Authorization": {"$secret": "HEADER_TOKEN", "format": "Bearer {}"}}
    return [
        tell("says", "0"),
        tell("says and fails", "3"),
        tell("is cut", "0", max_output_bytes=len(TOKEN) - 4),
        a_task("shell", "command", **SHELL),
        a_task("wrong inputs", "command", argv=reference()),
        a_task("not there", "command", argv=[reference(format="/no/such/{}")]),
        a_task("as an argument", "command", argv=["echo", reference(format="--token={}")]),
        a_task("in a line", "command", **IN_A_LINE),
        a_task("echoed", "http", url=f"{url}/ok", headers=auth),
        a_task("refused", "http", url=f"{url}/500", headers=auth),
        a_task("nobody there", "http", url=reference(format="http://127.0.0.1:1/{}")),
        a_task("returns", "python", function="jobs:returns", arguments={"token": reference()}),
        a_task("raises", "python", function="jobs:raises", arguments={"token": reference()}),
        a_task("fails", "python", function="jobs:fails", arguments={"token": reference()}),
    ]


async def echo(request: Request, writer: Any) -> None:
    status = "500 Broken" if request.target == "/500" else "200 OK"
    said = request.headers["authorization"].removeprefix("Bearer ")
    body = f"you are {said}, or {base64.b64encode(said.encode()).decode()}"
    await send(writer, body.encode(), status=status, headers=("Content-Type: text/plain", f"X-Token: {said}"))


def files_of(project: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(project.glob("weft.db*")):
        yield path.name, path.read_bytes().decode("utf-8", "replace")
        yield f"{path.name} as bytes", path.read_bytes().decode("latin-1")


async def test_no_flow_tells_it_to_the_store_the_terminal_or_a_log(project: Path) -> None:
    async with serving(echo) as server:
        ran = await asyncio.to_thread(
            weft, project, "flow", "run", "-", stdin=json.dumps(flow(project, server.url))
        )
        heard = {request.headers["authorization"] for request in server.requests}
    tasks = json.loads(weft(project, "tasks", "list", "--json").out)["tasks"]
    shown = [weft(project, "tasks", "show", task["id"]).out for task in tasks]
    shown += [weft(project, "tasks", "events", tasks[0]["task_tree_id"], "--json").out, json.dumps(tasks)]

    told = dict([*files_of(project), ("stdout", ran.out), ("stderr", ran.err)])
    told |= {f"shown {number}": text for number, text in enumerate(shown)}
    for token in (TOKEN, TOKEN[:-4], HEADER_TOKEN):
        assert {where for where, text in told.items() if is_told(token, text)} == set()
    assert heard == {f"Bearer {HEADER_TOKEN}"}
    results = {task["name"]: task for task in tasks}
    assert MARK in results["says"]["result"]["stdout"]
    assert MARK in results["says and fails"]["error"]
    assert results["returns"]["result"] == {"token": MARK, MARK: [MARK], "ok": True}
    assert results["says"]["inputs"]["env"] == {"TOLD": {"$secret": NAME}}
    assert "pass it in 'env' or 'stdin'" in results["as an argument"]["error"]
    assert results["echoed"]["result"]["text"] == "you are [secret HEADER_TOKEN], or [secret HEADER_TOKEN]"
    assert results["echoed"]["result"]["headers"]["x-token"] == "[secret HEADER_TOKEN]"
    assert MARK in ran.err


def test_a_record_gets_only_the_secrets_that_the_project_allows(project: Path) -> None:
    task = a_task("asks", "command", argv=["echo", {"$secret": "HOME"}])
    weft(project, "flow", "run", "-", stdin=json.dumps([task]))
    (found,) = json.loads(weft(project, "tasks", "list", "--json").out)["tasks"]

    said = f"secret 'HOME' may not be used; [secrets] allow in weft.toml has {NAME}, HEADER_TOKEN"
    assert (found["status"], found["error"]) == ("failed", said)


def test_a_secret_that_is_not_set_fails_the_task_for_good(project: Path) -> None:
    task = a_task("asks", "command", argv=["echo", reference()])
    weft(project, "flow", "run", "-", stdin=json.dumps([task]), **{NAME: ""})
    (found,) = json.loads(weft(project, "tasks", "list", "--json").out)["tasks"]

    assert found["error"] == f"secret '{NAME}' is missing: the environment variable {NAME} is not set"


def test_a_reference_passes_the_schema_of_its_task_until_it_is_filled_in(project: Path) -> None:
    schema = {"type": "object", "properties": {"argv": {"items": {"type": "string", "maxLength": 10}}}}
    task = a_task("asks", "command", argv=["echo", reference()])
    task["schemas"]["input_schema"] = schema
    ran = weft(project, "flow", "run", "-", stdin=json.dumps([task]))
    (found,) = json.loads(weft(project, "tasks", "list", "--json").out)["tasks"]

    assert ran.code == 1, ran.err
    assert found["status"] == "failed"
    assert "is longer than 10 characters" in found["error"]
    assert MARK in found["error"]


def test_what_a_task_gives_is_no_reference_to_a_secret(project: Path) -> None:
    given = a_task("gives", "python", function="jobs:refers")
    takes = a_task("takes", "python", function="jobs:shows", arguments={})
    takes |= {"dependencies": ["gives"], "params": {"input_mappings": {"arguments": "gives.given"}}}
    takes["schemas"]["input_schema"] = {
        "properties": {"arguments": {"additionalProperties": {"type": "object"}}}
    }
    weft(project, "flow", "run", "-", stdin=json.dumps([given, takes]))
    found = {task["name"]: task for task in json.loads(weft(project, "tasks", "list", "--json").out)["tasks"]}

    assert found["takes"]["result"] == {"seen": {"$secret": NAME}}


SCRIPT = """<task type="script"><command><arg>sh</arg><arg>-c</arg>
<arg>echo "$0"; echo "$0" | base64 &gt;&amp;2; exit 3</arg><arg>{{token}}</arg></command></task>"""

EVALUATED = [
    "token",
    "(dict :a (list token))",
    '(log-message token) (string-append "x" token)',
    "(no-such-name token)",
    '(get (dict) token "a" "b")',
    "(json-parse token)",
    SCRIPT,
]


@pytest.mark.parametrize("expression", EVALUATED)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_eval_never_shows_it(project: Path, expression: str, form: tuple[str, ...]) -> None:
    ran = weft(project, "eval", "--secret", f"token={NAME}", *form, expression, WEFT_DEBUG="1")

    assert not is_told(TOKEN, ran.out)
    assert not is_told(TOKEN, ran.err)
    if expression in EVALUATED[:3]:
        assert ran.code == 0, ran.err
        assert "[secret token]" in ran.out


def test_a_secret_that_is_not_there_is_a_usage_error(project: Path) -> None:
    ran = weft(project, "eval", "--secret", "token=NOT_SET", "token")

    assert ran.code == 2
    assert "--secret token: the environment variable NOT_SET is not set" in ran.err


# Models: the key of a provider is a secret that nobody had to mark.

KEY = "sk-live/8Tq+2Zr=x'W9\"pM4"
"""With signs that are written otherwise in URLs, JSON and shells."""


def model_project(project: Path, server: ModelServer) -> None:
    (project / "weft.toml").write_text(
        f'[models]\ndefault = "here:some-model"\n[models.providers.here]\nkind = "openai"\n'
        f'base_url = "{server.base_url}"\napi_key_env = "HERE_API_KEY"\nretries = 1\n'
        '[tools]\nmodules = ["leaky"]\n'
    )
    (project / "leaky.py").write_text(
        "import os, weft\n\n@weft.tool\ndef leak(text: str) -> str:\n"
        '    """Tells."""\n    raise ValueError(os.environ["HERE_API_KEY"])\n'
    )


ASK = '(deftask ask () :instructions "Tell me." :tools ("python:leak")) (ask)'


@pytest.mark.parametrize("arguments", [(), ("--json",), ("--stream",)])
def test_a_model_that_knows_the_key_cannot_have_it_shown(
    project: Path, model_server: ModelServer, arguments: tuple[str, ...]
) -> None:
    model_project(project, model_server)
    encoded = base64.b64encode(f"a{KEY}".encode()).decode()
    model_server.script(
        asks_for("python_leak", {"text": KEY}),
        says("the key ", "is ", KEY[:9], KEY[9:], f" or {encoded} {KEY!r}"),
    )

    ran = weft(project, "eval", *arguments, ASK, HERE_API_KEY=KEY)

    assert ran.code == 0, ran.err
    assert model_server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert "[secret HERE_API_KEY]" in ran.out
    assert not is_told(KEY, ran.out)
    assert not is_told(KEY, ran.err)
    assert KEY not in json.dumps(model_server.requests[1].body["messages"][-1], ensure_ascii=False)


def test_a_provider_that_repeats_the_key_in_its_error_does_not_tell_it(
    project: Path, model_server: ModelServer
) -> None:
    model_project(project, model_server)
    model_server.always(fails(401, f"wrong key {KEY} {KEY.encode().hex()} {json.dumps(KEY)}"))

    ran = weft(project, "eval", ASK, HERE_API_KEY=KEY, WEFT_DEBUG="1")

    assert ran.code == 1
    assert "wrong key" in ran.err
    assert not is_told(KEY, ran.out + ran.err)


# In Python: the registry is the process's own, so these have values of their own.


def test_a_program_uses_it_and_its_failure_does_not_tell_it() -> None:
    token = Secret("py-3Kd82/lq+Zt61", "PY")
    source = '(deftask ask (t) :instructions "Use {{t}}.") (ask t)'
    asked = effects(
        [TaskFailed(TaskFailure("llm_error", "no", content="py-3Kd82/lq+Zt61", details={"a": [str(token)]}))]
    )

    with pytest.raises(TaskFailed) as failed:
        evaluate(source, effects=asked, t=token)

    assert asked.calls[0].prompt == "Use py-3Kd82/lq+Zt61."
    assert failed.value.error.content == "[secret PY]"
    assert "py-3Kd82" not in repr((failed.value, failed.value.result(), failed.value.args, token, f"{token}"))


def test_the_output_of_a_script_is_not_told_when_it_fails() -> None:
    token = Secret("script-91jX+k/20", "SCRIPT")
    source = """<task type="script"><command><arg>sh</arg><arg>-c</arg>
      <arg>read t; echo "$t"; echo "$t" | base64 >&amp;2; exit 3</arg></command>
      <inputs><input name="stdin" from="t"/></inputs></task>"""

    with pytest.raises(TaskFailed) as failed:
        evaluate(source, effects=LocalEffects(), t=token)

    assert not is_told("script-91jX+k/20", json.dumps(failed.value.result().notes))
    assert not is_told("script-91jX+k/20", str(failed.value))


def test_a_script_does_not_get_it_as_an_argument() -> None:
    token = Secret("script-91jX+k/20", "SCRIPT")

    with pytest.raises(TaskFailed, match="pass it in 'env' or 'stdin'"):
        evaluate('(script :argv ("echo" "{{t}}"))', effects=LocalEffects(), t=token)


def test_messages_of_errors_and_log_records_are_redacted(caplog: pytest.LogCaptureFixture) -> None:
    Secret("logged-55aa/66bb", "LOGGED")
    try:
        raise ValueError("logged-55aa/66bb")
    except ValueError:
        logging.getLogger("any.library").exception("key %s", "logged-55aa/66bb")

    assert WeftError("it is logged-55aa/66bb").message == "it is [secret LOGGED]"
    assert "[secret LOGGED]" in caplog.text
    assert "logged-55aa" not in caplog.text


def test_short_secrets_are_refused() -> None:
    with pytest.raises(SecretTooShort, match="the secret 'PIN' has fewer than 6 characters"):
        Secret("1234", "PIN")
    assert redact("1234") == "1234"


def test_what_servers_of_tools_are_given_is_secret(tmp_path: Path) -> None:
    file = tmp_path / ".mcp.json"
    servers = {
        "one": {"command": "x", "env": {"ONE_TOKEN": "token-of-one", "PLAIN": "plain-value"}},
        "two": {
            "url": "https://${TWO_API_KEY}.example",
            "headers": {"Authorization": "Bearer two-header-key"},
        },
    }
    file.write_text(json.dumps({"mcpServers": servers}))

    read_servers(file, {"TWO_API_KEY": "the-key-of-two"})

    told = redact("token-of-one plain-value the-key-of-two two-header-key")
    assert told == "[secret ONE_TOKEN] plain-value [secret TWO_API_KEY] [secret Authorization]"
