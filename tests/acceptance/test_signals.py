"""Signals to `weft flow run` at every moment of its life: what it says, and how it exits."""

import json
import signal
import socket
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import catches_sigterm, read_until, started, wait_for, weft

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "weft.db")


def gated(folder: Path, *, code: int = 0) -> dict[str, Any]:
    """Return a task that creates the file `begun`, and ends when the file `go` exists."""
    program = (
        "import pathlib, sys, time\nfolder = pathlib.Path(sys.argv[1])\n(folder / 'begun').touch()\n"
        f"while not (folder / 'go').exists(): time.sleep(0.01)\nsys.exit({code})"
    )
    argv = [sys.executable, "-c", program, str(folder)]
    return {"name": "gated", "schemas": {"method": "command"}, "inputs": {"argv": argv}}


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("code", [0, 1])
def test_a_flow_that_ends_while_it_is_being_stopped_has_ended(
    store_url: str, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    document = json.dumps([gated(tmp_path, code=code)])
    with started("flow", "run", "-", db=store_url, stdin=document) as process:
        wait_for((tmp_path / "begun").exists)
        process.send_signal(number)
        read_until(process.stderr, "stopping")
        (tmp_path / "go").touch()
        out, err = process.communicate(timeout=60)

    assert process.returncode == code, err
    assert f"1 task: 1 {'failed' if code else 'completed'}" in out.decode()
    assert "resume with" not in err.decode()
    (task,) = weft("tasks", "list", "--json", db=store_url).json["tasks"]
    watched = weft("tasks", "watch", task["id"], db=store_url)
    assert watched.code == 0
    assert "nobody" not in watched.err


@pytest.mark.parametrize("number", SIGNALS)
def test_a_flow_that_is_stopped_with_work_to_do_says_how_to_go_on(
    db: str, tmp_path: Path, number: signal.Signals
) -> None:
    after = {"name": "after", "dependencies": ["gated"]}
    with started("flow", "run", "-", db=db, stdin=json.dumps([gated(tmp_path), after])) as process:
        wait_for((tmp_path / "begun").exists)
        process.send_signal(number)
        read_until(process.stderr, "stopping")
        (tmp_path / "go").touch()
        out, err = process.communicate(timeout=60)

    assert process.returncode == 130, err
    (root,) = weft("tasks", "list", "--roots", "--json", db=db).json["tasks"]
    assert f"resume with: weft flow run {root['id']}\n" in err.decode()
    assert "2 tasks: 1 pending, 1 completed" in out.decode()
    assert weft("flow", "run", root["id"], db=db).code == 0


def test_a_flow_that_another_process_stops_ends_with_its_tasks_and_says_how_to_go_on(
    db: str, tmp_path: Path
) -> None:
    after = {"name": "after", "dependencies": ["gated"]}
    document = json.dumps([gated(tmp_path), after])
    with started("flow", "run", "-", db=db, stdin=document) as working:
        wait_for((tmp_path / "begun").exists)
        (root,) = weft("tasks", "list", "--roots", "--json", db=db).json["tasks"]
        with started("tasks", "watch", root["id"], db=db) as watching:
            with started("flow", "run", root["id"], db=db) as stopping:
                read_until(stopping.stderr, "running")
                wait_for(lambda: workers_of(db) == 2)
                stopping.send_signal(signal.SIGINT)
                stopping.communicate(timeout=60)
            assert stopping.returncode == 130
            assert watching.poll() is None, "the other process still works on it"
            (tmp_path / "go").touch()
            _, err = working.communicate(timeout=60)
            _, watched = watching.communicate(timeout=60)

    assert working.returncode == 130
    assert f"stopped by another process; resume with: weft flow run {root['id']}\n" in err.decode()
    assert "completed  gated\nno process runs this flow" in watched.decode()


def workers_of(db: str) -> int:
    with closing(sqlite3.connect(db)) as file:
        (count,) = file.execute("SELECT count(*) FROM workers").fetchone()
    return int(count)


def test_the_id_of_the_flow_is_said_at_once(db: str, tmp_path: Path) -> None:
    with started("flow", "run", "-", db=db, stdin=json.dumps([gated(tmp_path)])) as process:
        said = read_until(process.stderr, "\n")
        wait_for((tmp_path / "begun").exists)
        (root,) = weft("tasks", "list", "--roots", "--json", db=db).json["tasks"]
        (tmp_path / "go").touch()
        process.communicate(timeout=60)

    assert said == f"running {root['id']}\n"


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_the_flow_is_being_stored_is_not_lost(
    db: str, tmp_path: Path, number: signal.Signals
) -> None:
    weft("flow", "submit", "-", db=db, stdin='[{"name": "other"}]')
    lock = sqlite3.connect(db, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    with started("flow", "run", "-", db=db, stdin=json.dumps([gated(tmp_path)])) as process:
        wait_for(lambda: catches_sigterm(process))
        process.send_signal(number)
        read_until(process.stderr, "stopping")
        lock.execute("COMMIT")
        lock.close()
        _, err = process.communicate(timeout=60)

    assert process.returncode == 130, err
    (task,) = weft("tasks", "list", "--name", "gated", "--json", db=db).json["tasks"]
    assert f"running {task['id']}\n" in err.decode()
    assert f"resume with: weft flow run {task['id']}\n" in err.decode()
    assert task["status"] == "pending", "it was not begun"


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_the_store_is_opened_leaves_without_a_traceback(
    tmp_path: Path, number: signal.Signals
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://ann@127.0.0.1:{silent.getsockname()[1]}/weft"
        with started("flow", "run", "-", db=url, stdin='[{"name": "a"}]') as process:
            connection, _ = silent.accept()
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
            connection.close()

    assert process.returncode == (130 if number is signal.SIGINT else -signal.SIGTERM), err
    assert err.decode().strip() in ("", "error: interrupted: interrupted")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_modules_are_imported_leaves_without_a_traceback(
    tmp_path: Path, number: signal.Signals
) -> None:
    marker = tmp_path / "importing"
    (tmp_path / "click.py").write_text(
        f"import pathlib, time\npathlib.Path({str(marker)!r}).touch()\ntime.sleep(600)"
    )
    with started("flow", "run", "-", db="unused", PYTHONPATH=str(tmp_path)) as process:
        wait_for(marker.exists)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)

    assert process.returncode == -number, "the signal ended it: 130 or 143 for a shell"
    assert err == b""


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_server_ends_on_sigterm_although_another_process_holds_its_file(db: str, has_begun: bool) -> None:
    weft("flow", "submit", "-", db=db, stdin='[{"name": "a"}]')
    with closing(sqlite3.connect(db, isolation_level=None)) as holder:
        if not has_begun:
            holder.execute("BEGIN IMMEDIATE")
        with started("serve", "--no-http", db=db) as process:
            read_until(process.stderr, "serving")
            if has_begun:
                wait_for(lambda: holder.execute("SELECT count(*) FROM workers").fetchone()[0])
                holder.execute("BEGIN IMMEDIATE")
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=12)

    assert "Traceback" not in err.decode()
    assert process.returncode == 0 or "error: store-busy:" in err.decode(), "it had not begun to serve"


@pytest.mark.parametrize("command", [("flow", "run", "-"), ("run", "-", "--format", "sexp")])
def test_a_command_that_waits_to_store_something_ends_on_sigterm_although_another_process_holds_the_file(
    db: str, command: tuple[str, ...]
) -> None:
    weft("flow", "submit", "-", db=db, stdin='[{"name": "other"}]')
    document = '[{"name": "a"}]' if command[0] == "flow" else "(+ 1 2)"
    with closing(sqlite3.connect(db, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with started(*command, db=db, stdin=document) as process:
            wait_for(lambda: catches_sigterm(process))
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=12)

    assert process.returncode == 5, err
    assert "error: store-busy:" in err.decode()


def test_a_run_whose_file_is_removed_ends_with_an_error(db: str, tmp_path: Path) -> None:
    with started("flow", "run", "-", db=db, stdin=json.dumps([gated(tmp_path)])) as process:
        wait_for((tmp_path / "begun").exists)
        Path(db).unlink()
        _, err = process.communicate(timeout=60)

    assert process.returncode == 1
    assert "error: store-replaced:" in err.decode()
