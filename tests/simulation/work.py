"""What simulated processes do: flows, schedules, programs with every kind of step; a model that counts."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

from msgspec import structs

from tests.given_tools import GivenTool, GivenTools
from tests.simulation.processes import current_process
from weft.clock import Clock
from weft.config.sections import HandlerSettings
from weft.effects.local import LocalEffects
from weft.evaluator.effects import ScriptOutcome, ScriptRun, Step
from weft.executors.builtin import built_in_registry
from weft.executors.protocol import ExecutionFailed, Work
from weft.executors.registry import ExecutorRegistry
from weft.llm.errors import ModelError
from weft.llm.payload import HandlerPayload, ModelReply, ToolMessage
from weft.llm.protocol import OnText
from weft.tasks.record import JsonObject
from weft.testing import models
from weft.testing.scripted_model import ScriptedModel, tool_use
from weft.tools.system import SpawnSubtask, SystemTool, request_user_input

HEAD = """(deftask ask (x) :instructions "{{x}}")
(deftask part (x) :description "A part of the work" :instructions "{{x}}")
(deftask boss (x) :instructions "{{x}}" :tools ("system:spawn_subtask"))
(deftask curious (x) :instructions "{{x}}" :tools ("system:request_user_input" "kit:note"))
(define (person what) (get (system:request_user_input :question what) "answer"))
(define (message e) (get-in e (list "notes" "error" "message")))
(template both (a b) (list (ask a) (ask b)))
(define s 0)
"""

SENDING_SECONDS = 0.001
"""What is cancelled earlier was not sent: a process that was frozen for longer than its lease begins a call
and cancels it in the same moment."""

IsStored = Callable[[str], bool]
"""Whether the store has a completed record whose result contains a text."""


class Model(ScriptedModel):
    """A model for all processes, which notes when it is asked what it has answered and what is stored."""

    def __init__(self, chance: Random, is_stored: IsStored) -> None:
        super().__init__(self._answer_to)
        self._chance = chance
        self._is_stored = is_stored
        self._numbers = count(1)
        self._given: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
        self.copied: set[str] = set()
        """The runs that were copied: a copy asks on its own account."""
        self.repeated: list[str] = []
        """What was asked although the answer was stored."""
        self.calls = 0

    async def request(self, payload: HandlerPayload, on_text: OnText | None = None) -> ModelReply:
        process = current_process()
        if process is not None and process.is_dead:  # it is being cleared away
            raise asyncio.CancelledError
        self.calls += 1
        key = payload.messages[0].content, len(payload.messages)
        run = key[0].partition(" ")[0]
        stored = [text for text in self._given[key] if run not in self.copied and self._is_stored(text)]
        await asyncio.sleep(SENDING_SECONDS)
        self.repeated += [f"{key}: {text}" for text in stored]
        await asyncio.sleep(100.0 if "hangs" in key[0] else self.latency())
        reply = await super().request(payload, on_text)
        reply = structs.replace(reply, text=self.text(*key))
        self._given[key].append(reply.text)
        return reply

    def latency(self) -> float:
        """Return how long an answer takes."""
        return self._chance.expovariate(1.5)

    def text(self, prompt: str, messages: int) -> str:
        """Return an answer that no other call gets."""
        return f"answer {next(self._numbers)};"

    def _answer_to(self, payload: HandlerPayload) -> Any:
        prompt = payload.messages[0].content
        heard = [message for message in payload.messages if isinstance(message, ToolMessage)]
        if " fails" in prompt or (" moody" in prompt and self._chance.random() < 0.5):
            return ModelError("llm_error", f"{prompt}: the model is down")
        if " delegates" in prompt and not heard:
            plain = {"fresh_context": "disabled"}  # else memory is asked, in a thread
            inputs = {"x": f"{prompt.partition(' d')[0]} part"}
            request = {"type": "atomic", "name": "part", "inputs": inputs, "context_management": plain}
            return tool_use("system:spawn_subtask", **request)
        if " wonders" in prompt and not heard:
            return tool_use("kit:note", x=prompt)
        if " wonders" in prompt and len(heard) == 1:
            return tool_use("system:request_user_input", question=f"{prompt}?")
        return "answer"


class Effects(LocalEffects):
    """The effects of one evaluation: real sessions and tools; scripts take time and start nothing."""

    def __init__(self, model: Model, chance: Random, clock: Clock) -> None:
        super().__init__(
            models=models(model),
            tools=GivenTools(
                SystemTool(request_user_input, has_effects=True),
                SpawnSubtask(),
                GivenTool("kit:note", lambda x: f"noted {x}"),
            ),
            handler=HandlerSettings(),
            clock=clock,
        )
        self._chance = chance

    async def run_script(self, step: Step, run: ScriptRun) -> ScriptOutcome:
        await asyncio.sleep(self._chance.expovariate(2.0))
        is_bad = run.argv[0] == "bad"
        return ScriptOutcome(" ".join(run.argv), "", 1 if is_bad else 0)


def executors(chance: Random) -> ExecutorRegistry:
    """Return the executors of one process: `work` takes time, reports, and fails as its inputs say."""
    registry = built_in_registry()

    async def work(inputs: JsonObject, work: Work) -> JsonObject:
        for part in range(int(inputs.get("parts", 1))):
            await asyncio.sleep(chance.expovariate(2.0))
            await work.report(part / 10)
        if work.attempt <= inputs.get("failures", 0):
            raise ExecutionFailed("it broke", is_permanent=bool(inputs.get("permanent")))
        if inputs.get("hangs"):
            await asyncio.sleep(10_000)
        return {"value": f"{work.task.name} by attempt {work.attempt}"}

    registry.executor("work")(work)
    return registry


class Writer:
    """Writes flows and programs; every prompt begins with the number of its program."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._runs = count(1)
        self._prompts = count(1)
        self.run = ""

    def flow(self) -> list[JsonObject]:
        """Return a flow of 1 to 8 tasks with dependencies, retries and time limits."""
        chance = self._chance
        tasks: list[JsonObject] = []
        for number in range(chance.randint(1, 8)):
            before = [task["name"] for task in tasks[1:]]
            chosen = chance.sample(before, min(len(before), chance.randint(0, 2)))
            tasks.append(
                {"name": f"t{number}", **self._task(), "dependencies": list(map(self._need, chosen))}
            )
        return tasks

    def _task(self) -> JsonObject:
        chance = self._chance
        inputs: JsonObject = {"parts": chance.randint(0, 4)}
        params: JsonObject = {}
        drawn = chance.random()
        if drawn < 0.3:
            inputs["failures"] = chance.randint(1, 3)
            params["retry"] = {"attempts": chance.randint(2, 4), "delay": chance.choice((0.1, 1.0, 5.0))}
        elif drawn < 0.4:
            inputs |= {"failures": 9, "permanent": chance.random() < 0.5}
        if chance.random() < 0.15:
            inputs["hangs"] = True
            params["timeout_seconds"] = chance.choice((0.5, 2.0, 8.0))
        method = chance.choice(("work", "work", "work", "noop"))
        return {"schemas": {"method": method}, "inputs": inputs, "params": params}

    def _need(self, name: str) -> JsonObject:
        return {"id": name, "required": self._chance.random() < 0.7}

    def schedule(self) -> list[JsonObject]:
        """Return a flow that runs now and then, a few times."""
        chance = self._chance
        root, *others = self.flow()[:3]
        policy = {"catchup": chance.choice(("once", "all")), "overlap": chance.choice(("skip", "allow"))}
        return [
            {
                **root,
                "params": {**root["params"], **policy},
                "schedule_type": "interval",
                "schedule_expression": str(chance.randint(3, 15)),
                "schedule_enabled": True,
                "max_runs": chance.randint(1, 4),
            },
            *others,
        ]

    def program(self) -> str:
        """Return a program of a few parts, of which some fail, are late, or ask a person."""
        self.run = f"r{next(self._runs)}"
        parts = [self._form(2) for _ in range(self._chance.randint(1, 4))]
        tried = [
            part if self._chance.random() < 0.3 else f"(try {part} (catch e (message e)))" for part in parts
        ]
        return HEAD + "\n".join(tried)

    def _prompt(self, *moods: str) -> str:
        mood = self._chance.choice(moods or ("q", "q", "q", "q", "fails", "moody"))
        return f"{self.run} p{next(self._prompts)} {mood}"

    def _leaf(self) -> str:
        leaves = (
            lambda: f'(ask "{self._prompt()}")',
            lambda: f'(ask "{self._prompt()}")',
            lambda: f'(ask "{self._prompt()}")',
            lambda: f'(script :argv ("{self._chance.choice(("good", "good", "bad"))}" "x"))',
            lambda: f'(kit:note "{self._prompt("q")}")',
            lambda: f'(person "{self._prompt("q")}")',
            lambda: f'(boss "{self._prompt("delegates")}")',
            lambda: f'(curious "{self._prompt("wonders")}")',
            lambda: f'(both "{self._prompt()}" "{self._prompt()}")',
        )
        return self._chance.choice(leaves)()

    def _form(self, depth: int) -> str:
        if depth == 0:
            return self._leaf()
        one, other = (self._form(depth - 1) for _ in range(2))
        items = " ".join(f'"{self._prompt("q")}"' for _ in range(self._chance.randint(1, 4)))
        late = f'(list {one} (ask "{self._prompt("hangs")}"))'
        forms = (
            one,
            f"(parallel {one} {other})",
            f"(sequential {one} {other})",
            f"(map ask (list {items}))",
            # A variable of its own: of concurrent branches none may set what others read.
            f'(let ((n 0)) (loop 2 (begin (set! n (+ n 1)) (ask (format "{self._prompt("q")} {{}}" n)))))',
            f'(try {one} (catch e (ask "{self._prompt("q")}")))',
            f"(try (with-budget (:calls {self._chance.randint(1, 3)}) {one}) (catch e {other}))",
            f"(try (with-timeout {self._chance.choice((1, 4))} {late}) (catch e {other}))",
            f"(cond ((= s 99) {one}) (else {other}))",
        )
        return self._chance.choice(forms)
