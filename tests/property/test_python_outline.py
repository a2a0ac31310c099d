"""The outline of generated Python programs is what `ast` says of them."""

import ast
import warnings

from hypothesis import given
from hypothesis import strategies as st

from weft.memory.files.outline import by_tree, python_outline

LINES = (
    "x = 1",
    "LIMIT = 3",
    "NAME: int = 4",
    '# it\'s """ here, def no(): ...',
    's = """one line""" + "another"',
    's = """\n{text}\n"""',
    "s = '''\n{text}\n'''",
    's = r"""a\\""" b\n{text}\n"""',
    's = """a\\\\"""',
    "s = '\"\"\"', \"'''\"",
    's = f"""{{x!r}}\n{text}\n""" """more\n{text}"""',
    '"""\n{text}\n"""',
    'x = [""" \' """, \'#\', "\\""]  # def no(): ...',
)
TEXTS = ("def no(): ...", "class No:", "    def no(self): ...", "WORD = 1", "'''", "# \\", "it's")
HEADS = (
    "def f{number}(a,\n        b=1):",
    "async def g{number}():",
    "class C{number}(object):",
    "if x:",
    "try:",
)


@st.composite
def bodies(draw: st.DrawFn, depth: int = 0) -> str:
    """Draw some statements, with the indentation of their depth."""
    found: list[str] = []
    for number in range(draw(st.integers(1, 4))):
        if depth < 3 and draw(st.booleans()):
            head = draw(st.sampled_from(HEADS)).format(number=number)
            found.append("    " * depth + head + "\n" + draw(bodies(depth + 1)))
            if head == "try:":
                found.append("    " * depth + "finally: pass")
        else:
            line = draw(st.sampled_from(LINES)).format(text=draw(st.sampled_from(TEXTS)))
            found.append("    " * depth + line)
    return "\n".join(found)


@given(bodies())
def test_the_outline_is_what_the_tree_says(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes in strings
        try:
            tree = ast.parse(text)
        except SyntaxError:
            return  # three quotes met three quotes of their kind
    assert python_outline(text)[0] == list(by_tree(tree))
