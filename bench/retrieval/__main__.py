"""Compares ways to find files: `python -m bench.retrieval [--data DIR] [--embeddings MODEL] [REPOSITORY...]`.

`--data` has questions for packages (JSON), whose wheels are fetched once; a REPOSITORY is a local git
repository, whose own commits are the questions. With an embedded model (`--embeddings local:minilm`) the best
matches are also ordered by meaning. `--questions` asks of each package only so many, evenly chosen.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.measure import machine
from bench.retrieval.figures import Figures
from bench.retrieval.rankers import Ranker, by_matcher, keywords, lexical, plain_full_text, texts_of
from bench.retrieval.tasks import Tree, repository_trees, wheel_trees
from weft.memory.hybrid import HybridMatcher
from weft.memory.index import SqliteIndex
from weft.memory.matching import LexicalMatcher
from weft.memory.vectors import Vectors
from weft.project_embedder import LocalEmbedder

Made = dict[str, Ranker]
Results = dict[str, Figures]


def main() -> None:
    """Print the figures of every way, by package or repository and over all."""
    arguments = _arguments()
    print(machine())
    overall: Results = {}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        make = _maker(arguments.embeddings)
        for tree in wheel_trees(arguments.data, arguments.cache) if arguments.data else ():
            step = max(1, len(tree.questions) // (arguments.questions or len(tree.questions)))
            tree = tree._replace(questions=tree.questions[::step])  # noqa: PLW2901 - some of them
            with_index = SqliteIndex(work / f"{tree.name}.db")
            _add(overall, _shown(tree.name, _asked(tree, with_index, make)))
        for repository in arguments.repositories:
            _add(
                overall,
                _shown(repository.name, _repository(repository.resolve(), work, arguments.commits, make)),
            )
    ratio = _shown("all", overall)["lexical"].recall_at_5 / overall["plain full text"].recall_at_5
    print(f"\nlexical to plain full text, recall@5: {ratio:.2f}x (goal: 1.2x)")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.retrieval", description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "weft-bench-retrieval")
    parser.add_argument("--commits", type=int, default=60, help="of each repository")
    parser.add_argument("--embeddings", metavar="local:NAME")
    parser.add_argument("--questions", type=int, help="of each package; default: all")
    parser.add_argument("repositories", type=Path, nargs="*", metavar="REPOSITORY")
    return parser.parse_args()


def _maker(embeddings: str | None) -> Callable[[Tree, SqliteIndex], Made]:
    """What makes the rankers of a tree that is indexed."""
    model = None if embeddings is None else LocalEmbedder(embeddings)

    def make(tree: Tree, index: SqliteIndex) -> Made:
        texts = texts_of(tree.folder)
        made = {
            "keywords": keywords(texts),
            "plain full text": plain_full_text(texts),
            "lexical": lexical(index),
        }
        if model is not None:
            vectors = Vectors(index.path, model)
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
    """The index goes from commit to commit as a user's does: by what has changed."""
    index = SqliteIndex(work / f"{repository.name}.db")
    results: Results = {}
    for tree in repository_trees(repository, work / "trees" / repository.name, limit):
        _add(results, _asked(tree, index, make))
    return results


def _add(overall: Results, results: Results) -> None:
    for name, figures in results.items():
        overall.setdefault(name, Figures()).extend(figures)


def _shown(title: str, results: Results) -> Results:
    print(f"\n{title} ({len(next(iter(results.values()), ()))} questions)")
    for name, figures in results.items():
        print(f"  {name:16} {figures}", flush=True)
    return results


if __name__ == "__main__":
    main()
