"""The results of the last run of everything: kept as `results.json`, shown as `RESULTS.md`.

What a run leaves out is carried over from the run before, with that run's commit and date.
"""

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import msgspec

from bench.measure import Benchmark, Figure, LeftOut, Measured, machine

FOLDER = Path(__file__).parent
RECORD, PAGE = "results.json", "RESULTS.md"


class Run(msgspec.Struct, frozen=True):
    """Where and when figures were measured."""

    commit: str
    date: str
    machine: str


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """A figure, and the run that it is from unless that is the last one."""

    figure: Figure
    carried: Run | None = None


class Section(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one module measured."""

    module: str
    title: str
    about: str
    rows: list[Row] = []
    left_out: list[LeftOut] = []


class Results(msgspec.Struct, frozen=True):
    """The last run, and the figures by module."""

    run: Run
    sections: list[Section] = []


def this_run() -> Run:
    """Return the commit that is checked out, today's date and this machine."""
    return Run(commit=_commit(), date=str(datetime.now(UTC).date()), machine=machine())


def _commit() -> str:
    results = [f":!bench/{name}" for name in (RECORD, PAGE)]
    try:
        commit = _git("rev-parse", "--short=10", "HEAD").strip()
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", *results).strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit} with changes" if changed else commit


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(FOLDER.parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def load(folder: Path = FOLDER) -> Results | None:
    """Return the results kept in a folder."""
    path = folder / RECORD
    return msgspec.json.decode(path.read_bytes(), type=Results) if path.exists() else None


def save(results: Results, folder: Path = FOLDER) -> None:
    """Keep the results in a folder, and write the page."""
    encoded = msgspec.json.format(msgspec.json.encode(results), indent=1)
    (folder / RECORD).write_bytes(encoded + b"\n")
    (folder / PAGE).write_text(render(results))


def merge(
    old: Results | None,
    run: Run,
    found: Mapping[str, Sequence[Measured]],
    benchmarks: Mapping[str, Benchmark],
) -> Results:
    """Return the results of a run, with those figures of the old results that it left out."""
    old_sections = {section.module: section for section in old.sections} if old else {}
    sections = []
    for module, benchmark in benchmarks.items():
        before = old_sections.get(module, Section(module, "", ""))
        if module in found:
            figures = [each for each in found[module] if isinstance(each, Figure)]
            left_out = [each for each in found[module] if isinstance(each, LeftOut)]
            missing = [each.what for each in left_out]
        else:  # not part of this run
            figures, left_out, missing = [], before.left_out, [""]
        carried = _carried(before.rows, old.run, figures, missing) if old else []
        rows = [*(Row(figure) for figure in figures), *carried]
        sections.append(Section(module, benchmark.title, about(module), rows, left_out))
    return Results(run, sections)


def _carried(rows: Iterable[Row], run: Run, figures: Iterable[Figure], missing: Iterable[str]) -> list[Row]:
    """Return the old rows that begin as something that is missing now, marked with their run."""
    measured = {figure.what for figure in figures}
    return [
        Row(row.figure, row.carried or run)
        for row in rows
        if row.figure.what.startswith(tuple(missing)) and row.figure.what not in measured
    ]


def about(module: str) -> str:
    """Return what a module's docstring says, without its examples of command lines."""
    paragraphs = (import_module(module).__doc__ or "").strip("\n").split("\n\n")
    return "\n\n".join(each for each in paragraphs if not each.lstrip().startswith("python -m "))


def render(results: Results) -> str:
    """Return the page."""
    run = results.run
    head = (
        "# Measurements\n\n"
        "Written by `python -m bench`, which runs every benchmark on one commit; edits here are lost.\n"
        "Ratios within one run count; absolute times are of one machine. Rows with a date are carried over\n"
        "from an earlier run. What was tried, and how other engines are set up: [NOTES.md](NOTES.md).\n\n"
        f"Commit {run.commit}, {run.date}; {run.machine}.\n"
    )
    return head + "".join(_section(section) for section in results.sections)


def _section(section: Section) -> str:
    command = section.module.removesuffix(".__main__")
    lines = ["", f"## {section.title} (`python -m {command}`)", "", section.about, ""]
    if section.rows:
        lines += ["| what | reached | compared to | goal | details |", "|---|--:|---|---|---|"]
        lines += [_line(row) for row in section.rows]
    if section.rows and section.left_out:
        lines.append("")
    lines += [f"* {each}." for each in section.left_out]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    figure, run = row.figure, row.carried
    what = figure.what if run is None else f"{figure.what} ({run.date}, commit {run.commit})"
    goal = f"{figure.goal}: **missed**" if figure.is_missed else figure.goal
    cells = (what, figure.reached, figure.compared_to, goal, figure.details)
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
