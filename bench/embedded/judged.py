"""What the good model is judged on: verdicts, picks, tools, functions. Written for this benchmark."""

from typing import Any, NamedTuple

from weft.evaluator.tools import ToolDefinition


class Verdict(NamedTuple):
    """A task, an output, and whether the output does what the task asks for."""

    task: str
    output: str
    is_success: bool


VERDICTS = (
    Verdict("Name three primary colours.", "red, yellow, blue", True),
    Verdict("Name three mammals.", "dog, whale, lizard", False),
    Verdict("Write a Python function add(a, b) that returns the sum.", "def add(a, b): return a + b", True),
    Verdict("Write a Python function add(a, b) that returns the sum.", "def add(a, b): return a - b", False),
    Verdict("Give the capital of Italy in one word.", "Rome", True),
    Verdict("Give the capital of Spain in one word.", "Lisbon", False),
    Verdict("Translate 'thank you' to German.", "Danke", True),
    Verdict("Translate 'cheese' to Spanish.", "fromage", False),
    Verdict("List exactly four days of the week.", "Monday, Tuesday, Friday", False),
    Verdict("List exactly two even numbers.", "4, 10", True),
    Verdict("What is 17 + 25? Answer with the number only.", "42", True),
    Verdict("What is 9 * 8? Answer with the number only.", "The product is 72.", False),
    Verdict('Answer with a JSON object that has the key "name".', '{"name": "Ada"}', True),
    Verdict('Answer with a JSON object that has the keys "name" and "age".', '{"name": "Ada"}', False),
    Verdict(
        "Write a Python function largest(xs) that returns the largest element of a list.",
        "def largest(xs): return max(xs)",
        True,
    ),
    Verdict(
        "Write a Python function is_even(n) that returns True for even numbers.",
        "def is_even(n): return n % 2 == 1",
        False,
    ),
    Verdict("Sort these numbers in ascending order: 3, 1, 2.", "1, 2, 3", True),
    Verdict("Sort these words alphabetically: pear, apple, fig.", "pear, fig, apple", False),
    Verdict("Write one sentence about rain.", "Rain falls softly on the roof at night.", True),
    Verdict("Write a SQL query that selects all rows of the table users.", "DELETE FROM users;", False),
)


FRESH_VERDICTS = (
    Verdict("Name two planets of the solar system.", "Mars and Saturn", True),
    Verdict("Name two European rivers.", "Danube and Amazon", False),
    Verdict("Write a Python function triple(x).", "def triple(x): return 3 * x", True),
    Verdict(
        "Write a Python function last(xs) that returns the last element.", "def last(xs): return xs[0]", False
    ),
    Verdict("What is the chemical symbol of gold?", "Au", True),
    Verdict("What is the chemical symbol of iron?", "Ir", False),
    Verdict("Translate 'dog' to Italian.", "cane", True),
    Verdict("Translate 'house' to German.", "la casa", False),
    Verdict("Count down from 5 to 1.", "5, 4, 3, 2, 1", True),
    Verdict("Count down from 5 to 1.", "1, 2, 3, 4, 5", False),
    Verdict("What is 100 / 4? Only the number.", "25", True),
    Verdict("What is 15 - 6? Only the number.", "8", False),
    Verdict("Write the word 'weft' in capital letters.", "WEFT", True),
    Verdict("Answer in one word: is the sun a star?", "Yes, the sun is a star.", False),
    Verdict("Give a JSON array of three numbers.", "[1, 2, 3]", True),
    Verdict("Give a JSON array of three numbers.", '["a", "b", "c"]', False),
    Verdict("Write a shell command that lists the files of a folder.", "ls", True),
    Verdict("Write a shell command that prints the current folder.", "rm -rf .", False),
    Verdict("Write a greeting that contains the name Eva.", "Hello Eva, nice to see you!", True),
    Verdict("Write a greeting that contains the name Eva.", "Hello, nice to see you!", False),
)
"""As many again, which the prompt was not tuned on."""


class Pick(NamedTuple):
    """A question and the file it is about."""

    question: str
    answer: str


FILES = {
    "auth": {
        "src/login.py": "checks passwords, makes and ends sessions",
        "src/billing.py": "invoices, prices, credit cards, refunds",
        "src/search.py": "full-text index and ranking of results",
        "src/upload.py": "receives files from users, checks their size and type",
        "src/report.py": "makes PDF reports and charts",
    },
    "build": {
        "tools/compile.py": "turns source files into binaries, calls the compiler",
        "tools/deploy.py": "copies a release to the servers and restarts them",
        "tools/lint.py": "checks the style of source files",
        "tools/bench.py": "measures speed and memory and compares with earlier runs",
        "tools/docs.py": "builds the documentation pages from comments",
    },
}

PICKS = (
    Pick("Users are logged out after five minutes; where do we change that?", "src/login.py"),
    Pick("A customer was charged twice and wants the money back.", "src/billing.py"),
    Pick("Typing 'colour' does not find pages that say 'color'.", "src/search.py"),
    Pick("Pictures larger than 10 MB are refused.", "src/upload.py"),
    Pick("The bars in the monthly diagram have the wrong colours.", "src/report.py"),
    Pick("gcc is called with the wrong optimisation flag.", "tools/compile.py"),
    Pick("After a release one machine still runs the old version.", "tools/deploy.py"),
    Pick("Lines longer than 100 characters should be reported.", "tools/lint.py"),
    Pick("We want to know whether the last change made it slower.", "tools/bench.py"),
    Pick("The manual on the web site misses the new function.", "tools/docs.py"),
)


def _tool(name: str, description: str, **arguments: str) -> ToolDefinition:
    properties = {key: {"type": "string", "description": about} for key, about in arguments.items()}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return ToolDefinition(name=name, description=description, input_schema=schema)


TOOLS = (
    _tool("read_file", "Reads a file and gives its text.", path="the file to read"),
    _tool("write_file", "Writes text into a file.", path="the file to write", text="what to write"),
    _tool("list_folder", "Lists the names of the files in a folder.", path="the folder"),
    _tool("run_tests", "Runs the tests of the project.", pattern="which tests"),
    _tool("search_web", "Looks something up on the internet.", query="what to look for"),
)


class ToolChoice(NamedTuple):
    """A request and the tool it needs; None: an answer without a tool."""

    request: str
    tool: str | None


TOOL_CHOICES = (
    ToolChoice("Show me what is in config.yaml.", "read_file"),
    ToolChoice("Create notes.txt with the text 'buy milk'.", "write_file"),
    ToolChoice("Which files are in the folder src?", "list_folder"),
    ToolChoice("Check whether the tests about login still pass.", "run_tests"),
    ToolChoice("Find out on the internet who won the 2022 football World Cup.", "search_web"),
    ToolChoice("What does the file README.md say about installing?", "read_file"),
    ToolChoice("Say hello to me.", None),
    ToolChoice("How much is 2 + 3?", None),
)


class Function(NamedTuple):
    """A function to write, and expressions about it that must be true."""

    name: str
    description: str
    checks: tuple[str, ...]


FUNCTIONS = (
    Function(
        "is_palindrome",
        "is_palindrome(text) is True if the text reads the same backwards, ignoring case and spaces.",
        ("is_palindrome('Never odd or even')", "not is_palindrome('abc')", "is_palindrome('')"),
    ),
    Function(
        "fizzbuzz",
        "fizzbuzz(n) returns 'Fizz' for multiples of 3, 'Buzz' for multiples of 5, 'FizzBuzz' for both, "
        "else the number as a string.",
        (
            "fizzbuzz(9) == 'Fizz'",
            "fizzbuzz(10) == 'Buzz'",
            "fizzbuzz(30) == 'FizzBuzz'",
            "fizzbuzz(7) == '7'",
        ),
    ),
    Function(
        "flatten",
        "flatten(items) returns one flat list of the elements of lists nested to any depth.",
        ("flatten([1, [2, [3, [4]]], 5]) == [1, 2, 3, 4, 5]", "flatten([]) == []", "flatten([[[]]]) == []"),
    ),
    Function(
        "roman",
        "roman(n) returns the Roman numeral of an integer from 1 to 3999.",
        ("roman(4) == 'IV'", "roman(1994) == 'MCMXCIV'", "roman(3999) == 'MMMCMXCIX'", "roman(8) == 'VIII'"),
    ),
    Function(
        "second_largest",
        "second_largest(numbers) returns the second largest distinct number, or None if there is none.",
        ("second_largest([3, 1, 2]) == 2", "second_largest([5, 5, 4]) == 4", "second_largest([7]) is None"),
    ),
    Function(
        "merge_intervals",
        "merge_intervals(intervals) takes a list of [start, end] pairs and returns the sorted list of pairs "
        "in which overlapping or touching ones are merged.",
        (
            "[list(p) for p in merge_intervals([[5, 7], [1, 3], [2, 4]])] == [[1, 4], [5, 7]]",
            "[list(p) for p in merge_intervals([[1, 2], [2, 3]])] == [[1, 3]]",
            "merge_intervals([]) == []",
        ),
    ),
    Function(
        "run_length",
        "run_length(text) returns a list of (character, count) tuples of runs of equal characters.",
        (
            "run_length('aaab') == [('a', 3), ('b', 1)]",
            "run_length('') == []",
            "run_length('aba')[2] == ('a', 1)",
        ),
    ),
    Function(
        "parse_duration",
        "parse_duration(text) returns the seconds of a duration such as '1h30m', '45s' or '2h5s'.",
        ("parse_duration('1h30m') == 5400", "parse_duration('45s') == 45", "parse_duration('2h5s') == 7205"),
    ),
)
