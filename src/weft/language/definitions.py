"""What of a program a library has: its templates and functions, and nothing that would be performed."""

from weft.language.tree import Define, Lambda, Program, Template


def definitions_of(program: Program) -> Program:
    """The templates and functions of a program: to evaluate them has no effect but that they are known."""
    return Program(tuple(form for form in program.forms if _is_definition(form)))


def _is_definition(form: object) -> bool:
    return isinstance(form, Template) or (isinstance(form, Define) and isinstance(form.value, Lambda))
