"""Ways to find the files that a change will touch: keywords, plain full text, weft's own.

Questions are subjects of commits, answers the source files that the commit changed. `--data` has questions
for packages; a REPOSITORY is a local git repository, whose own commits are asked of the tree before each
(default: this one). With `--embeddings local:minilm` the best matches are also ordered by meaning.

    python -m bench.retrieval [--size QUESTIONS] [--fetch] [--embeddings MODEL] [REPOSITORY ...]
"""

import argparse
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.measure import Benchmark, Figure, LeftOut, Measured
from bench.retrieval.figures import Figures
from bench.retrieval.rankers import Ranker, by_matcher, keywords, lexical, plain_full_text, texts_of
from bench.retrieval.tasks import ROOT, Tree, add_tree_options, repository_trees, wheel_trees
from weft.llm.local.models import LocalEmbedder
from weft.memory.index.index import SqliteIndex
from weft.memory.search.hybrid import HybridMatcher, Vectors
from weft.memory.search.matcher import LexicalMatcher

Made = dict[str, Ranker]
Results = dict[str, Figures]

BASELINE = "plain full text"


def measure(options: argparse.Namespace) -> Iterator[Measured]:
    """Yield recall of weft's way against plain full text, by package or repository and over all."""
    overall: Results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, results in _results(options, Path(folder)):
            if isinstance(results, LeftOut):
                yield results
                continue
            for way, figures in results.items():
                overall.setdefault(way, Figures()).extend(figures)
            yield _figure(name, results)
    if overall:
        yield _figure("all of this run", overall, at_least=1.2)


def _figure(name: str, results: Results, at_least: float | None = None) -> Measured:
    ours, plain = results["lexical"], results[BASELINE]
    if not plain.recall_at_5:
        return LeftOut(name, f"plain FTS5 found nothing for {len(plain)} questions")
    return Figure(
        f"{name}: recall@5 of {len(ours)} questions",
        ours.recall_at_5 / plain.recall_at_5,
        "x",
        "plain FTS5",
        at_least=at_least,
        details="; ".join(f"{way} {figures}" for way, figures in results.items()),
    )


def _results(options: argparse.Namespace, work: Path) -> Iterator[tuple[str, Results | LeftOut]]:
    make = _maker(options.embeddings)
    for tree in wheel_trees(options):
        if isinstance(tree, LeftOut):
            yield tree.what, tree
        else:
            yield tree.name, _asked(tree, SqliteIndex(work / f"{tree.name}.db"), make)
    for repository in options.repositories:
        name = "this repository" if repository == ROOT else repository.resolve().name
        try:
            commits = min(options.commits, options.size)
            results = _repository(repository.resolve(), work, commits, make)
        except subprocess.CalledProcessError:
            results = {}
        yield name, results or LeftOut(name, "not a git repository, or without commits to ask about")


def add_options(parser: argparse.ArgumentParser) -> None:
    add_tree_options(parser)
    parser.add_argument("--commits", type=int, default=40, help="most questions of a repository")
    parser.add_argument("--embeddings", metavar="local:NAME")
    parser.add_argument("repositories", type=Path, nargs="*", metavar="REPOSITORY", default=[ROOT])


def _maker(embeddings: str | None) -> Callable[[Tree, SqliteIndex], Made]:
    """Return what makes the rankers of an indexed tree."""
    model = None if embeddings is None else LocalEmbedder(embeddings)

    def make(tree: Tree, index: SqliteIndex) -> Made:
        texts = texts_of(tree.folder)
        made = {
            "keywords": keywords(texts),
            BASELINE: plain_full_text(texts),
            "lexical": lexical(index),
        }
        if model is not None:
            vectors = Vectors(index, model)
            made["hybrid"] = by_matcher(HybridMatcher(LexicalMatcher(index), model, vectors))
        return made

    return make


def _asked(tree: Tree, index: SqliteIndex, make: Callable[[Tree, SqliteIndex], Made]) -> Results:
    index.update([tree.folder])
    results: Results = {}
    for name, ranker in make(tree, index).items():
        figures = results.setdefault(name, Figures())
        for question in tree.questions:
            before = time.perf_counter()
            found = ranker(question.text)
            figures.add(question, found, time.perf_counter() - before)
    return results


def _repository(
    repository: Path, work: Path, limit: int, make: Callable[[Tree, SqliteIndex], Made]
) -> Results:
    """Ask one index after each commit, updated as a user's is: by what has changed."""
    index = SqliteIndex(work / f"{repository.name}.db")
    results: Results = {}
    for tree in repository_trees(repository, work / "trees" / repository.name, limit):
        for way, figures in _asked(tree, index, make).items():
            results.setdefault(way, Figures()).extend(figures)
    return results


BENCHMARK = Benchmark(
    "Retrieval",
    "questions of each tree",
    smallest=1,
    full=120,
    measure=measure,
    rounds=1,
    add_options=add_options,
)

if __name__ == "__main__":
    BENCHMARK.run()
