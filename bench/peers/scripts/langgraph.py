"""LangGraph: a graph of one node for each task, with its SQLite checkpointer.

    python -m bench.peers.scripts.langgraph SHAPE SIZE

Tasks that are ready together run in one superstep; a task with two parents joins their edges. The
checkpointer keeps SQLite's default of waiting for the disk at each commit. Building and compiling the graph
is not measured.
"""

import operator
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph

from bench.engine.graphs import Graph
from bench.peers.measured import Measured, report


class State(TypedDict, total=False):
    """What the graph is started with, and how many tasks ran."""

    begin: bool
    ran: Annotated[int, operator.add]


def noop(state: State) -> State:
    return {"ran": 1}


def run(graph: Graph, folder: Path) -> Measured:
    """Run the graph, and count the tasks whose writes are in the database."""
    database = folder / "langgraph.db"
    with SqliteSaver.from_conn_string(str(database)) as saver:
        saver.setup()
        app = _builder(graph).compile(checkpointer=saver)
        # A superstep counts as one recursion: a chain needs as many as it has tasks.
        config = {"configurable": {"thread_id": "1"}, "recursion_limit": len(graph) + 10}
        began = time.perf_counter()
        # "sync": each step is in the database before the next one starts; "async" only writes beside it.
        end = app.invoke({"begin": True}, config, durability="sync")
        seconds = time.perf_counter() - began
    assert end["ran"] == len(graph), end
    with closing(sqlite3.connect(database)) as connection:
        [(tasks,)] = connection.execute("SELECT count(DISTINCT task_id) FROM writes WHERE channel = 'ran'")
    return Measured(seconds, tasks)


def _builder(graph: Graph) -> StateGraph:
    builder = StateGraph(State)
    for number, parents in enumerate(graph):
        name = f"t{number}"
        builder.add_node(name, noop)
        match [f"t{parent}" for parent in parents]:
            case []:
                builder.add_edge(START, name)
            case [parent]:
                builder.add_edge(parent, name)
            case several:
                builder.add_edge(several, name)
    return builder


if __name__ == "__main__":
    report("langgraph", run)
