"""Bounds on what weft takes in; each has its reason beside it."""

MAX_JSON_BYTES = 512 * 1024 * 1024
"""Largest JSON text that is read: a flow of a million tasks fits, an accident does not."""

MAX_JSON_DEPTH = 200
"""Deepest value of a field. JSON readers give up at a depth that shrinks with their own place on the stack,
so a value near that limit could be stored and never be read again."""

MAX_SHOWN_CHARACTERS = 200
"""How much of an offending value an error repeats: enough to recognise it, never a page of it."""

MAX_NESTED_DEPTH = 200
"""Deepest tree that is written in the nested form; JSON readers give up at a few hundred levels. A
deeper tree is written as a flat list, which says the same and is read back as well."""

MAX_NAME_CHARACTERS = 255
"""Longest name of a task; the specification says so."""

MAX_SUGGESTION_WORDS = 10_000
"""How many known words are searched for the one a caller may have meant; each costs microseconds."""

MAX_SUGGESTIONS = 20
"""How many wrong names of one flow get a suggestion: thousands would make the refusal take minutes."""

MAX_COUNT = 2**63 - 1
"""Largest count of runs: what a store keeps in an integer column."""

MAX_ANSWER_CHARACTERS = 1024 * 1024
"""Longest answer of a person to a question: a pasted file fits, a disk image does not."""

MAX_PROGRAM_CHARACTERS = 16 * 1024 * 1024
"""Longest program text that is read: a library of a thousand templates fits many times."""

MAX_PROGRAM_DEPTH = 1_000
"""Deepest nesting of a program: far beyond what a person writes, and safe for every walk over the tree."""

MAX_TASK_DEPTH = 200
"""Deepest nesting of tasks that run inside tasks, and of templates that call templates: each level is a
record and a few waiting coroutines, and a template that calls itself must end."""

MAX_VALUE_SIZE = 10_000_000
"""Most elements of a list, characters of a string, parts of a value of a program: 80 MB of memory, and a
value that doubles is stopped before it takes all there is."""

MAX_WALKED_PARTS = 2_000_000
"""Most parts of a value that are compared or flattened: a second of work. A list that holds a list twice, and
so on sixty levels deep, is small in memory and has no end."""

MAX_INTEGER_BITS = 14_000
"""Largest integer of a program, about 4,200 digits: Python prints and reads no longer ones."""
