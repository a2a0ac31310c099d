"""Every rule on one task: its fields, the rules between them, its inputs. All problems at once."""

from weft.tasks.consistency import consistency_problems
from weft.tasks.field_checks import read_task, readable_part
from weft.tasks.input_checks import input_problems
from weft.tasks.problems import Problem
from weft.tasks.record import JsonObject, Task


def checked_task(raw: JsonObject, *, path: str = "") -> tuple[Task | None, list[Problem]]:
    """The task a JSON object describes, and every rule it breaks; None when fields are wrong.

    What is wrong with one field keeps nobody from hearing of the others.
    """
    task, problems = read_task(raw, path=path)
    wrong = {problem.field for problem in problems}
    part = readable_part(raw, wrong) if task is None else task
    if part is not None:
        found = [*consistency_problems(part, path=path), *input_problems(part, path=path, is_stored=True)]
        problems += [problem for problem in found if problem.field.partition(".")[0] not in wrong]
    return task, problems
