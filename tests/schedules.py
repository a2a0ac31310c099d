"""What tests of the scheduler have in common."""

from datetime import UTC, datetime, timedelta
from typing import Any

from weft.clock import ManualClock
from weft.ids import new_task_id
from weft.store.protocol import EVERYONE, TaskStore
from weft.tasks.flow import Flow
from weft.tasks.operations import SubmitFlow
from weft.tasks.parsing.flow_parser import read_flow

START = datetime(2025, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOURLY = {"schedule_type": "interval", "schedule_expression": "3600", "schedule_enabled": True}


async def submit(store: TaskStore, clock: ManualClock, *tasks: dict[str, Any]) -> Flow:
    """Store a flow as of the clock's time."""
    flow = read_flow(list(tasks), new_id=new_task_id, now=clock.now())
    return await store.operate(SubmitFlow(flow, clock.now()), owner=EVERYONE)
