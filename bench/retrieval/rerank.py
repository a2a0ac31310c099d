"""Whether a model that ranks again helps: the same ten best pieces in the matcher's order and in the model's.

    python -m bench.retrieval.rerank [--size QUESTIONS] [--model MODEL] [--data FOLDER] [--minutes N]

Questions come from all packages by turns, until the time is over.
"""

import argparse
import asyncio
import itertools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.embedded.models import missing_model, open_models
from bench.measure import Benchmark, Figure, LeftOut, Measured
from bench.retrieval.tasks import Question, Tree, add_tree_options, wheel_trees
from weft.effects.local import LocalEffects
from weft.evaluator.effects import ContextQuery, Step
from weft.llm.protocol import Models
from weft.memory.index.index import SqliteIndex
from weft.memory.memory import Memory
from weft.memory.search.matcher import LexicalMatcher

PIECES = 10


def measure(options: argparse.Namespace) -> Iterator[Measured]:
    """Yield recall in the model's order against recall in the matcher's."""
    missing = missing_model(options.model)
    trees = [] if missing else list(wheel_trees(options))
    found = [tree for tree in trees if isinstance(tree, Tree)]
    if not found:
        absent = [f"{tree.what} {tree.why}" for tree in trees if isinstance(tree, LeftOut)]
        yield LeftOut("", missing or next(iter(absent), "no packages to ask about"))
        return
    rows = asyncio.run(compare(options, found))
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    for first, (before, after) in {1: (means[0], means[2]), 5: (means[1], means[3])}.items():
        if not before:
            yield LeftOut(f"recall@{first}", "the matcher found nothing")
            continue
        yield Figure(
            f"recall@{first} of {len(rows)} questions, ranked by {options.model}",
            after / before,
            "x",
            "the matcher's order",
            details=f"{after:.3f} to {before:.3f}; {means[4]:.1f} s a question",
        )


async def compare(options: argparse.Namespace, trees: list[Tree]) -> list[tuple[float, ...]]:
    """Return recall@1 and @5 of both orders and the seconds of the model's, for each question."""
    until = time.monotonic() + 60 * options.minutes
    rows: list[tuple[float, ...]] = []
    models = open_models(options.model)
    with tempfile.TemporaryDirectory() as folder:
        effects = {
            tree.name: _effects(tree, Path(folder) / f"{tree.name}.db", models, options.model)
            for tree in trees
        }
        for tree, question in itertools.islice(_spread(trees), options.size):
            if rows and time.monotonic() > until:
                break
            rows.append(await _compared(effects[tree.name], tree.folder.resolve(), question))
            print(f"  {tree.name:10} {rows[-1]} {question.text[:60]}", flush=True)
        for each in effects.values():
            await each.close()
    await models.close()
    return rows


def add_options(parser: argparse.ArgumentParser) -> None:
    add_tree_options(parser)
    parser.add_argument("--model", default="qwen")
    parser.add_argument("--minutes", type=float, default=10)


def _spread(trees: list[Tree]) -> Iterator[tuple[Tree, Question]]:
    """Yield questions of all packages in turn."""
    chosen = [[(tree, question) for question in tree.questions] for tree in trees]
    for together in itertools.zip_longest(*chosen):
        yield from (each for each in together if each is not None)


def _effects(tree: Tree, file: Path, models: Models, model: str) -> LocalEffects:
    index = SqliteIndex(file)
    return LocalEffects(
        models=models, model=f"local:{model}", memory=Memory(index, LexicalMatcher(index), [tree.folder])
    )


async def _compared(effects: LocalEffects, folder: Path, question: Question) -> tuple[float, ...]:
    before = await effects.get_context(_step(question, is_ranked=False), _query(question, is_ranked=False))
    begun = time.monotonic()
    after = await effects.get_context(_step(question, is_ranked=True), _query(question, is_ranked=True))
    seconds = time.monotonic() - begun
    return (*_recall(before, folder, question), *_recall(after, folder, question), round(seconds, 1))


def _query(question: Question, *, is_ranked: bool) -> ContextQuery:
    return ContextQuery(query=question.text, limit=PIECES, rerank=is_ranked)


def _step(question: Question, *, is_ranked: bool) -> Step:
    return Step("1", _query(question, is_ranked=is_ranked))


def _recall(answer: dict[str, Any], folder: Path, question: Question) -> tuple[float, float]:
    """Return recall among the first and the first five files, of those that can be found so."""
    if answer.get("error"):
        print(f"  {answer['error']}")
    found = [Path(match["source_path"]).relative_to(folder).as_posix() for match in answer["matches"]]
    one, five = (
        len(question.answers & set(found[:first])) / min(first, len(question.answers)) for first in (1, 5)
    )
    return one, five


BENCHMARK = Benchmark(
    "Retrieval: a second look by a model",
    "questions",
    smallest=1,
    full=20,
    measure=measure,
    rounds=1,
    add_options=add_options,
)

if __name__ == "__main__":
    BENCHMARK.run()
