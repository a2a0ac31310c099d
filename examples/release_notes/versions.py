"""What the release flow calls: which version comes next."""

from importlib.metadata import version


def next_version(stdout: str, **_: object) -> dict[str, str]:
    """Return the version after the installed one; the arguments are the result of the task `commits`.

    A commit that adds something makes a minor version, others a patch.
    """
    major, minor, patch = map(int, version("weft").split("."))
    if any(subject.startswith("Add ") for subject in stdout.splitlines()):
        return {"version": f"{major}.{minor + 1}.0"}
    return {"version": f"{major}.{minor}.{patch + 1}"}
