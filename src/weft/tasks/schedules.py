from weft.errors import RequestError


class ScheduleError(RequestError):
    field = expected = actual = ""


def check(task): ...
def planned(task, *, after):
    return task
