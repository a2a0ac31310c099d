"""`weft flow run` and what steers it, as a person uses them."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import environment_of, on_terminal, read_until, shown_on, started, wait_for, weft
from weft.app.app import App
from weft.ids import TaskId
from weft.store.protocol import EVERYONE

EXAMPLE = Path(__file__).parents[2] / "examples" / "release.json"


def command(name: str, code: str, *dependencies: str, **fields: Any) -> dict[str, Any]:
    """Return a task that runs a line of Python."""
    argv = [sys.executable, "-c", code]
    return {
        "name": name,
        "schemas": {"method": "command"},
        "inputs": {"argv": argv},
        "dependencies": list(dependencies),
        **fields,
    }


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "weft.db")


def run(db: str, document: object, *arguments: str) -> Any:
    return weft("flow", "run", "-", *arguments, db=db, stdin=json.dumps(document))


def test_the_example_runs_to_its_end_and_its_tree_is_shown(store_url: str) -> None:
    ran = weft("flow", "run", EXAMPLE, db=store_url)

    assert ran.code == 0, ran.err
    assert "✔ publish" in ran.out
    assert ran.out.splitlines()[-1].endswith("5 tasks: 5 completed")
    assert "completed  tests" in ran.err


def test_a_result_flows_into_the_next_tasks_input(db: str) -> None:
    upper = command("upper", "import sys; print(sys.stdin.read().upper())", "say")
    upper["params"] = {"input_mappings": {"stdin": "say.stdout"}}
    ran = run(db, [command("say", "print('hello')"), upper], "--json")

    (last,) = weft("tasks", "list", "--name", "upper", "--json", db=db).json["tasks"]
    assert ran.json["counts"] == {"completed": 2}
    assert last["result"]["stdout"].strip() == "HELLO"


def test_a_failure_is_told_and_what_needs_it_is_blocked(db: str) -> None:
    ran = run(db, [{"name": "root"}, command("bad", "raise SystemExit(3)"), command("next", "", "bad")])

    assert ran.code == 1
    assert "✘ bad" in ran.out
    assert "[blocked]" in ran.out
    assert ran.out.splitlines()[-1].endswith("3 tasks: 1 pending, 1 completed, 1 failed, 1 blocked")


def test_a_failed_flow_is_mended_retried_and_goes_on(db: str) -> None:
    ran = run(
        db, [{"name": "root"}, command("bad", "raise SystemExit(3)"), command("next", "", "bad")], "--json"
    )
    root_id = ran.json["root_id"]
    (bad,) = weft("tasks", "list", "--name", "bad", "--json", db=db).json["tasks"]

    fixed = json.dumps({"argv": [sys.executable, "-c", "print('fixed')"]})
    assert weft("tasks", "update", bad["id"], f"inputs={fixed}", db=db).code == 0
    retried = weft("tasks", "retry", root_id, db=db)
    again = weft("flow", "run", root_id, "--json", db=db)

    assert retried.out == f"1 task reset to pending; resume with: weft flow run {root_id}\n"
    assert again.json["counts"] == {"completed": 3}
    assert weft("tasks", "retry", root_id, db=db).code == 2, "nothing has failed any more"


def test_a_program_that_runs_out_of_time_fails_and_can_be_retried(store_url: str, tmp_path: Path) -> None:
    paid, may_end = tmp_path / "paid", tmp_path / "may-end"
    text = f"""
        (begin
          (script :argv ("sh" "-c" "echo once >> {paid}"))
          (script :argv ("sh" "-c" "test -e {may_end} || sleep 600")))"""
    program = {"main": {"name": "slow", "text": text, "surface": "sexp"}}
    task = {
        "name": "slow",
        "schemas": {"method": "template"},
        "params": {"program": program, "timeout_seconds": 1},
    }
    ran = run(store_url, task, "--json")
    root_id = ran.json["root_id"]
    again = weft("flow", "run", root_id, db=store_url)

    assert (ran.code, again.code) == (1, 1), again.err
    assert ran.json["counts"] == {"completed": 1, "failed": 1, "cancelled": 1}
    assert "timed out after 1 s" in again.out
    assert "stopped" not in ran.err + again.err

    may_end.touch()
    assert weft("tasks", "retry", root_id, db=store_url).code == 0
    retried = weft("flow", "run", root_id, db=store_url)
    assert retried.code == 0, retried.err
    assert paid.read_text() == "once\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('(task :instructions "x" :model "away:m")', 5),
        ('(sequential (task :instructions "x" :model "away:m"))', 5),
        ('(map (lambda (x) (task :instructions "x" :model "away:m")) (list 1 2 3))', 5),
        ('(error "no")', 1),
    ],
)
def test_a_flow_whose_programs_find_no_model_could_not_be_tried(
    db: str, tmp_path: Path, text: str, code: int
) -> None:
    (tmp_path / "weft.toml").write_text(
        '[models.providers.away]\nbase_url = "http://127.0.0.1:9/v1"\nretries = 0\n'
    )
    program = {"main": {"name": "m", "text": text, "surface": "sexp"}}
    asks = {"name": "asks", "schemas": {"method": "template"}, "params": {"program": program}}
    after = {"name": "after", "dependencies": ["asks"]}
    (tmp_path / "flow.json").write_text(json.dumps([after, asks | {"parent_id": "after"}]))

    assert weft("flow", "run", "flow.json", db=db, cwd=tmp_path).code == code


def test_going_on_with_a_finished_flow_changes_nothing(db: str) -> None:
    root_id = run(db, [{"name": "a"}], "--json").json["root_id"]
    before = weft("tasks", "show", root_id, "--json", db=db).json

    again = weft("flow", "run", root_id, "--json", db=db)

    assert (again.code, again.json["counts"]) == (0, {"completed": 1})
    assert weft("tasks", "show", root_id, "--json", db=db).json == before


def test_a_running_flow_is_watched_and_cancelled_from_another_process(db: str, tmp_path: Path) -> None:
    marker = tmp_path / "started"
    code = f"import time, pathlib; pathlib.Path({str(marker)!r}).touch(); time.sleep(600)"
    document = [command("long", code), command("after", "", "long")]
    root_id = weft("flow", "submit", "-", "--json", db=db, stdin=json.dumps(document)).json["root_id"]
    with started("flow", "run", root_id, db=db) as running:
        wait_for(marker.exists)
        with started("tasks", "watch", root_id, db=db) as watching:
            cancelled = weft("tasks", "cancel", root_id, "--reason", "enough", "--json", db=db)
            out, err = running.communicate(timeout=60)
            watched, _ = watching.communicate(timeout=60)

    assert len(cancelled.json["cancelled"]) == 2
    assert running.returncode == 1, err
    assert "enough" in out.decode()
    assert "2 tasks: 2 cancelled" in watched.decode()
    assert weft("tasks", "cancel", root_id, db=db).code == 2, "it is over"


def test_limits_are_read_and_wrong_ones_refused(db: str) -> None:
    assert run(db, [{"name": "a"}], "--concurrency", "1", "--limit", "command=1").code == 0
    for wrong in ("command", "command=", "command=0", "=3", "command=x"):
        assert run(db, [{"name": "a"}], "--limit", wrong).code == 2


def test_programs_and_registered_templates_can_be_limited(db: str, tmp_path: Path) -> None:
    (tmp_path / "note.sexp").write_text("(template note () 1)")
    weft("library", "add", tmp_path / "note.sexp", db=db)
    methods = {"note": {}, "template": {"template": "note"}, "note@1": {}}
    asks = [
        {"name": f"by {method} {number}", "parent_id": "all", "schemas": {"method": method}, "params": params}
        for method, params in methods.items()
        for number in range(3)
    ]

    ran = run(db, [{"name": "all"}, *asks], *(f"--limit={method}=1" for method in methods))

    assert ran.code == 0, ran.err
    told = [line.split() for line in ran.err.splitlines() if " by " in line]
    for method in methods:
        assert [words[0] for words in told if words[2] == method] == ["started", "completed"] * 3


@pytest.mark.parametrize("arguments", [["flow", "run", "-"], ["serve", "--no-http"]])
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("comand", "did you mean 'command'?"),
        ("templat", "did you mean 'template'?"),
        ("zzz", "known executors are aggregate_results, aider, command"),
    ],
)
def test_a_limit_of_an_executor_that_is_not_there_is_refused(
    db: str, arguments: list[str], name: str, hint: str
) -> None:
    ran = weft(*arguments, "--limit", f"{name}=2", db=db, stdin='[{"name": "a"}]')

    assert ran.code == 2
    assert ran.err.startswith(f"error: invalid-limit: '{name}=2': there is no executor '{name}'; {hint}")
    assert not Path(db).exists()


def test_a_flow_is_not_resumed_by_weft_run_and_it_says_how(db: str) -> None:
    root_id = run(db, [{"name": "a"}], "--json").json["root_id"]

    resumed = weft("run", "--resume", root_id, db=db)

    assert resumed.code == 2
    assert resumed.err.startswith("error: no-run: ")
    assert f"weft flow run {root_id}" in resumed.err


def test_a_missing_flow_and_broken_input_are_told_as_everywhere(db: str) -> None:
    assert weft("flow", "run", "00000000-0000-4000-8000-000000000000", db=db).code == 3
    assert weft("flow", "run", "nowhere.json", db=db).code == 2
    assert run(db, [{"nam": "a"}]).code == 2


def test_on_a_terminal_the_tree_lives_and_is_then_replaced_by_the_last_one(db: str, tmp_path: Path) -> None:
    file = tmp_path / "flow.json"
    file.write_text(json.dumps([{"name": "root"}, command("slow", "import time; time.sleep(0.7)")]))

    with on_terminal("flow", "run", file, db=db) as (process, terminal):
        shown = shown_on(terminal)
        process.wait(timeout=30)

    assert process.returncode == 0
    assert "▶ slow" in shown, "the live view"
    assert "✔ slow" in shown, "the end"
    assert "2 tasks: 2 completed" in shown


def test_schedules_are_listed_foretold_and_switched(db: str) -> None:
    daily = {"schedule_type": "daily", "schedule_expression": "09:00", "schedule_enabled": True}
    document = [{"name": "report", **daily, "params": {"timezone": "Europe/Berlin"}}]
    root_id = weft("flow", "submit", "-", "--json", db=db, stdin=json.dumps(document)).json["root_id"]

    listed = weft("schedule", "list", db=db)
    planned = weft("schedule", "next", root_id, "-n", "3", "--json", db=db).json
    off = weft("schedule", "disable", root_id, db=db)

    assert "daily 09:00" in listed.out
    assert len(planned["next"]) == 3
    assert off.out == "disabled\n"
    assert weft("schedule", "list", db=db).out == "no schedules\n"
    assert weft("schedule", "enable", root_id, "--json", db=db).json["next_run_at"] == planned["next"][0]
    plain = run(db, [{"name": "a"}], "--json").json["root_id"]
    assert weft("schedule", "next", plain, db=db).err.startswith("error: no-schedule: ")


def test_running_a_scheduled_definition_runs_a_copy(db: str) -> None:
    hourly = {"schedule_type": "interval", "schedule_expression": "3600", "schedule_enabled": True}
    ran = run(db, [{"name": "report", **hourly}], "--json")

    tasks = weft("tasks", "list", "--json", db=db).json["tasks"]
    assert ran.json["counts"] == {"completed": 1}
    assert sorted(task["status"] for task in tasks) == ["completed", "pending"]


def test_a_server_fires_schedules_and_stops_on_sigterm(store_url: str) -> None:
    every = {"schedule_type": "interval", "schedule_expression": "1", "schedule_enabled": True, "max_runs": 2}
    document = json.dumps([{"name": "tick", **every}])
    weft("flow", "submit", "-", db=store_url, stdin=document)

    def runs() -> int:
        tasks = weft("tasks", "list", "--status", "completed", "--json", db=store_url).json["tasks"]
        return len(tasks)

    with started("serve", "--no-http", db=store_url) as server:
        wait_for(lambda: runs() == 2)
        server.terminate()
        _, err = server.communicate(timeout=30)

    assert server.returncode == 0, err
    events = weft("tasks", "events", "--json", db=store_url).json["events"]
    assert [event["type"] for event in events].count("schedule.fired") == 2
    assert weft("serve", db=store_url).code == 2


def test_watching_ends_with_the_last_task_also_when_the_flow_is_left_marked(store_url: str) -> None:
    root_id = run(store_url, [{"name": "a"}], "--json").json["root_id"]
    marked(store_url, root_id)

    watched = weft("tasks", "watch", root_id, db=store_url)

    assert (watched.code, "nobody" in watched.err) == (0, False)
    assert "1 task: 1 completed" in watched.out


def test_watching_a_flow_that_nobody_was_asked_to_run_says_so(db: str) -> None:
    root_id = weft("flow", "submit", "-", "--json", db=db, stdin='[{"name": "a"}]').json["root_id"]

    watched = weft("tasks", "watch", root_id, db=db)

    assert watched.code == 0
    assert watched.err == f"no process runs this flow; resume with: weft flow run {root_id}\n"


def test_watching_a_flow_whose_process_is_gone_says_so_and_waits(db: str) -> None:
    root_id = weft("flow", "submit", "-", "--json", db=db, stdin='[{"name": "a"}]').json["root_id"]
    marked(db, root_id)
    with started("tasks", "watch", root_id, db=db) as watching:
        read_until(watching.stderr, f"no process runs this flow; resume with: weft flow run {root_id}\n")
        assert weft("flow", "run", root_id, db=db).code == 0
        out, _ = watching.communicate(timeout=60)

    assert watching.returncode == 0
    assert "1 task: 1 completed" in out.decode()


def marked(db: str, root_id: str) -> None:
    """Leave the flow as a process leaves it that was killed: marked as one to be run."""

    async def mark() -> None:
        async with await App.open(db) as app:
            await app.store.run_flow(TaskId(root_id), owner=EVERYONE)

    asyncio.run(mark())


def test_a_flow_of_which_a_part_waits_for_its_schedule_says_so(store_url: str) -> None:
    hourly = {"schedule_type": "interval", "schedule_expression": "3600", "schedule_enabled": True}
    document = json.dumps([{"name": "a"}, {"name": "hourly", **hourly}])

    root_id = weft("flow", "submit", "-", "--json", db=store_url, stdin=document).json["root_id"]
    ran = weft("flow", "run", root_id, db=store_url)
    watched = weft("tasks", "watch", root_id, db=store_url)

    assert ran.code == 1
    assert "[waits for its schedule]" in ran.out
    assert "2 tasks: 1 pending, 1 completed, 1 waiting for a schedule" in ran.out
    assert "weft serve" in ran.err
    assert (watched.code, "nobody" in watched.err) == (0, False)


@pytest.mark.parametrize(("limit", "expected"), [("-Sn", 4096), ("-n", 64)])
def test_more_programs_run_at_a_time_than_the_limit_of_open_files_allows(
    db: str, limit: str, expected: int
) -> None:
    """The soft limit is raised; where the hard one is as low, programs wait for each other."""
    argv = ["sh", "-c", "sleep 0.2; ulimit -n"]
    document = json.dumps(
        [
            {"name": f"p{number}", "schemas": {"method": "command"}, "inputs": {"argv": argv}}
            for number in range(40)
        ]
    )
    command = f"ulimit -n 4096; ulimit {limit} 64; exec {sys.executable} -m weft flow run - --json"
    ran = subprocess.run(
        ["bash", "-c", command],
        check=False,
        input=document.encode(),
        capture_output=True,
        env=environment_of(db),
        timeout=120,
    )

    assert json.loads(ran.stdout)["counts"] == {"completed": 40}, ran.stderr.decode()
    (task,) = weft("tasks", "list", "--name", "p39", "--json", db=db).json["tasks"]
    assert task["result"]["stdout"] == f"{expected}\n"
    assert ran.stderr.count(b"until other processes have ended") == (limit == "-n"), "said once"
