"""One command measures everything and writes the results; another compares two checkouts."""

from pathlib import Path

import pytest
from bench import __main__ as everything
from bench import compare
from bench.measure import Benchmark, Figure, LeftOut, Measured, benchmarks
from bench.results import FOLDER, PAGE, Results, Run, load, merge, render

OLD, NEW = Run("a1", "2026-01-01", "a loom"), Run("b2", "2026-02-02", "a loom")
FAST, SLOW = Figure("one: fast", 1, "s"), Figure("two: slow", 9, "s", at_most=3)


def merged(old: Results | None, run: Run, *found: Measured) -> Results:
    benchmark = Benchmark("Looms", "threads", 1, 2, measure=lambda options: [])
    return merge(old, run, {"bench.runs": found}, {"bench.runs": benchmark})


def test_what_a_run_leaves_out_is_carried_over_with_its_own_commit_and_date() -> None:
    old = merged(None, OLD, FAST, SLOW)
    new = merged(old, NEW, Figure("one: fast", 2, "s"), LeftOut("two", "not installed"))

    assert "| one: fast | 2 s |" in render(new)
    assert "| two: slow (2026-01-01, commit a1) | 9 s |  | at most 3 s: **missed** |" in render(new)
    assert "* left out: two: not installed." in render(new)
    again = merged(new, Run("c3", "2026-03-03", "a loom"), LeftOut("", "failed"))
    assert [(row.figure.what, row.carried) for row in again.sections[0].rows] == [
        ("one: fast", NEW),
        ("two: slow", OLD),
    ]


def test_what_is_not_part_of_a_run_keeps_its_figures() -> None:
    benchmark = Benchmark("Looms", "threads", 1, 2, measure=lambda options: [])
    old = merged(None, OLD, FAST, LeftOut("two", "not installed"))
    new = merge(old, NEW, {}, {"bench.runs": benchmark})

    assert [(row.figure, row.carried) for row in new.sections[0].rows] == [(FAST, OLD)]
    assert new.sections[0].left_out == [LeftOut("two", "not installed")]


def test_a_figure_that_is_no_longer_measured_disappears() -> None:
    new = merged(merged(None, OLD, FAST, SLOW), NEW, FAST)

    assert [row.figure for row in new.sections[0].rows] == [FAST]


def test_one_command_writes_the_results_of_a_run(tmp_path: Path) -> None:
    only = ["--only", "bench.store.sqlite", "--smallest", "--output", str(tmp_path)]

    assert everything.main(only) == 0
    results = load(tmp_path)
    assert results is not None
    measured = [section.module for section in results.sections if section.rows]
    assert measured == ["bench.store.sqlite"]
    assert (tmp_path / PAGE).read_text() == render(results)
    assert f"Commit {results.run.commit}, {results.run.date}" in (tmp_path / PAGE).read_text()


def test_the_smallest_size_does_not_replace_the_results() -> None:
    with pytest.raises(SystemExit):
        everything.main(["--smallest"])


def test_the_page_of_results_is_what_the_record_says() -> None:
    results = load()

    assert results is not None
    assert (FOLDER / PAGE).read_text() == render(results)
    assert [section.module for section in results.sections] == list(benchmarks())


def test_two_checkouts_are_compared_by_the_median_of_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    here = str(FOLDER.parent)
    options = ["--benchmark", "bench.engine.local", "--size", "10", "--pairs", "1", "--limit", "0.001"]

    assert compare.main([here, here, *options]) == 1
    assert "bench.engine.local 10: median ratio" in capsys.readouterr().out


def test_a_checkout_on_which_a_workload_does_not_run_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "src" / "weft").mkdir(parents=True)
    (tmp_path / "src" / "weft" / "__init__.py").touch()

    assert compare.main([str(tmp_path), "--benchmark", "bench.runs", "--pairs", "1"]) == 2
    assert "bench.runs does not run on the old checkout: ModuleNotFoundError" in capsys.readouterr().err
