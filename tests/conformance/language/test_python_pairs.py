"""The programs of `pairs` once more, in Python: the same tree as in XML and as S-expressions."""

from tests.batches import batched
from tests.conformance.language.python_pairs import PYTHON
from tests.conformance.language.test_pairs import NAMES, from_sexp, from_xml


@batched("name", NAMES)
def test_python_xml_and_s_expressions_are_the_same_tree(name: str) -> None:
    assert PYTHON[name] == from_xml(name)
    assert PYTHON[name] == from_sexp(name)


def test_none_is_without_its_others() -> None:
    assert sorted(PYTHON) == NAMES
