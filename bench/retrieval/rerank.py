"""Whether a model that ranks again helps: `python -m bench.retrieval.rerank MODEL --data DIR [--minutes N]`.

The same ten best pieces, in the order of the matcher and in that of the model; questions are taken in turn
from all packages, until the time is over.
"""

import argparse
import asyncio
import itertools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import machine
from bench.retrieval.tasks import Question, Tree, wheel_trees
from weft.evaluator.effects import ContextQuery, Step
from weft.local_effects import LocalEffects
from weft.memory.index import SqliteIndex
from weft.memory.matching import LexicalMatcher
from weft.memory.memory import Memory

PIECES = 10


async def main() -> None:
    """Print recall@1 and recall@5 of both orders."""
    parser = argparse.ArgumentParser(prog="python -m bench.retrieval.rerank", description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "weft-bench-retrieval")
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=10)
    arguments = parser.parse_args()
    print(machine())
    until = time.monotonic() + 60 * arguments.minutes
    rows: list[tuple[float, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        trees = list(wheel_trees(arguments.data, arguments.cache))
        effects = {
            tree.name: _effects(tree, Path(folder) / f"{tree.name}.db", arguments.model) for tree in trees
        }
        for tree, question in itertools.islice(_spread(trees), arguments.questions):
            if time.monotonic() > until:
                break
            rows.append(await _compared(effects[tree.name], question))
            print(f"  {tree.name:10} {rows[-1]} {question.text[:60]}", flush=True)
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    print(f"{len(rows)} questions; matcher recall@1 {means[0]:.3f} recall@5 {means[1]:.3f}")
    print(f"{arguments.model} recall@1 {means[2]:.3f} recall@5 {means[3]:.3f}; {means[4]:.1f} s a question")


def _spread(trees: list[Tree]) -> Iterator[tuple[Tree, Question]]:
    """Questions of all packages in turn, from all of their history."""
    chosen = [
        [(tree, tree.questions[place]) for place in range(3, len(tree.questions), 17)] for tree in trees
    ]
    for together in itertools.zip_longest(*chosen):
        yield from (each for each in together if each is not None)


def _effects(tree: Tree, file: Path, model: str) -> LocalEffects:
    index = SqliteIndex(file)
    return LocalEffects(model=model, memory=Memory(index, LexicalMatcher(index), [tree.folder]))


async def _compared(effects: LocalEffects, question: Question) -> tuple[float, ...]:
    before = await effects.get_context(_step(question, is_ranked=False), _query(question, is_ranked=False))
    begun = time.monotonic()
    after = await effects.get_context(_step(question, is_ranked=True), _query(question, is_ranked=True))
    seconds = time.monotonic() - begun
    return (*_recall(before, question), *_recall(after, question), round(seconds, 1))


def _query(question: Question, *, is_ranked: bool) -> ContextQuery:
    return ContextQuery(query=question.text, limit=PIECES, rerank=is_ranked)


def _step(question: Question, *, is_ranked: bool) -> Step:
    return Step("1", _query(question, is_ranked=is_ranked))


def _recall(answer: dict[str, Any], question: Question) -> tuple[float, float]:
    """Recall among the first and the first five files, of those that can be found so."""
    if answer.get("error"):
        print(f"  {answer['error']}")
    found = [match["source_path"] for match in answer["matches"]]
    one, five = (
        len(question.answers & set(found[:first])) / min(first, len(question.answers)) for first in (1, 5)
    )
    return one, five


if __name__ == "__main__":
    asyncio.run(main())
