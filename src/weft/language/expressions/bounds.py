"""Bounds on conditions and placeholders; each has its reason beside it."""

MAX_CONDITION_CHARACTERS = 10_000
"""Longest condition: a page of text. Without loops in the language this also bounds its operations."""

MAX_DEPTH = 100
"""Deepest nesting of parentheses, brackets and calls: far beyond what a person can read."""

MAX_VALUE_SIZE = 1_000_000
"""Most characters or items that `+` makes: adding a value to itself must not fill the memory."""

MAX_WORK = 20_000_000
"""Units of work of one evaluation, about a second: many comparisons of long values must not hang."""

WORK_PER_ITEM = 20
"""Units for looking at one item of a list or map; a character of a text takes one unit at most."""

MAX_PATTERN_CHARACTERS = 1_000
"""Longest regular expression; compiling takes more than linear memory where it counts repetitions."""

WORK_PER_PATTERN = 100_000
"""Units for compiling a regular expression that is not a literal of the condition."""

MAX_PROBLEMS = 100
"""How many problems of one text are told."""
