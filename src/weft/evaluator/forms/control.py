"""Forms that branch, repeat, run concurrently, catch errors or set limits."""

from collections.abc import Callable
from typing import Any

from weft.evaluator.branches import current_branch, is_outer_budget_error
from weft.evaluator.budget import MAX_AMOUNT, Meter, Scope
from weft.evaluator.compiler import Compiler, Form
from weft.evaluator.effects import ContextQuery, Step
from weft.evaluator.environment import Env
from weft.evaluator.errors import BudgetExceeded, ProgramError, TaskFailed, program_error
from weft.evaluator.forms.error_locations import with_location
from weft.evaluator.functions import Code
from weft.evaluator.results import TaskResult
from weft.evaluator.values import fields_of, is_number, kind_of, scan_json, to_json, to_text
from weft.language import ast
from weft.language.cel import ConditionError, parse_condition
from weft.language.diagnostics import invalid_program
from weft.language.task_fields import NO_CONTEXT_QUERY, validate_context_keyword

CAUGHT_ERROR_OPERATIONS = 50
"""Operations that a caught error counts as: creating it with its location takes the time of many calls."""


def compile_if(compiler: Compiler, node: ast.If, is_tail: bool) -> Code:
    test = compiler.compile(node.test)
    then = compiler.compile(node.then, is_tail=is_tail)
    if node.otherwise is None:
        return lambda env: then(env) if test(env) else None
    otherwise = compiler.compile(node.otherwise, is_tail=is_tail)
    return lambda env: then(env) if test(env) else otherwise(env)


def compile_cond(compiler: Compiler, node: ast.Cond, is_tail: bool) -> Code:
    clauses = [
        (
            compiler.compile(clause.test),
            None if clause.body is None else compiler.compile(clause.body, is_tail=is_tail),
        )
        for clause in node.clauses
    ]
    otherwise = None if node.otherwise is None else compiler.compile(node.otherwise, is_tail=is_tail)

    def choose(env: Env) -> Any:
        for test, body in clauses:
            value = test(env)
            if value:
                return value if body is None else body(env)
        return None if otherwise is None else otherwise(env)

    return choose


def compile_and(compiler: Compiler, node: ast.And, is_tail: bool) -> Code:
    if not node.items:
        return lambda env: True
    first = [compiler.compile(item) for item in node.items[:-1]]
    last = compiler.compile(node.items[-1], is_tail=is_tail)

    def both(env: Env) -> Any:
        for item in first:
            value = item(env)
            if not value:
                return value
        return last(env)

    return both if first else last


def compile_or(compiler: Compiler, node: ast.Or, is_tail: bool) -> Code:
    if not node.items:
        return lambda env: False
    first = [compiler.compile(item) for item in node.items[:-1]]
    last = compiler.compile(node.items[-1], is_tail=is_tail)

    def either(env: Env) -> Any:
        for item in first:
            value = item(env)
            if value:
                return value
        return last(env)

    return either if first else last


def compile_try(compiler: Compiler, node: ast.Try, is_tail: bool) -> Code:
    name, machine, meter = node.name, compiler.machine, compiler.machine.meter
    body = compiler.compile(node.body)  # not in tail position, because it must end inside the `try`
    with compiler.hiding((name,)):
        handler = compiler.compile(node.handler, is_tail=is_tail)

    def attempt(env: Env) -> Any:
        try:
            return machine.attempt(lambda: body(env))
        except TaskFailed as error:
            if is_outer_budget_error(error):
                raise
            failed = error.result()
        try:
            meter.count(CAUGHT_ERROR_OPERATIONS)
        except BudgetExceeded as error:
            raise with_location(error, node, env=env) from None
        return handler(Env((name,), (failed,), env))

    return attempt


def compile_loop(compiler: Compiler, node: ast.Loop, is_tail: bool) -> Code:
    count, body = compiler.compile(node.count), compiler.compile(node.body)
    meter = compiler.machine.meter

    def repeat(env: Env) -> Any:
        times = count(env)
        value, number = None, 0
        try:
            for number in range(1, _require_count(times, "the count of a loop") + 1):  # noqa: B007  read below
                meter.count(1)
                value = body(env)
        except Exception as error:
            raise _with_round(with_location(error, node, "loop", env), number) from None
        return value

    return repeat


def compile_iterative_loop(compiler: Compiler, node: ast.IterativeLoop, is_tail: bool) -> Code:
    limit, initial = compiler.compile(node.max_iterations), compiler.compile(node.initial)
    executor, controller = compiler.compile(node.executor), compiler.compile(node.controller)
    validator = None if node.validator is None else compiler.compile(node.validator)
    meter = compiler.machine.meter

    def iterate(env: Env) -> Any:
        times, state = limit(env), initial(env)
        execute, control = executor(env), controller(env)
        validate = None if validator is None else validator(env)
        number, part = 0, "executor"
        try:
            result = None
            for number in range(1, _require_count(times, "the :max-iterations of iterative-loop") + 1):
                meter.count(1)
                part = "executor"
                result = compiler.invoke(execute, (state, number), None, node.span)
                checked = None
                if validate is not None:
                    part = "validator"
                    checked = compiler.invoke(validate, (result, number), None, node.span)
                part = "controller"
                verdict = compiler.invoke(control, (result, checked, number), None, node.span)
                is_last, state = _parse_decision(verdict)
                if is_last:
                    return state
            return result
        except Exception as error:
            raise _with_round(with_location(error, node, "iterative-loop", env), number, part=part) from None

    return iterate


def _with_round(error: Exception, number: int, **facts: Any) -> Exception:
    """Return the error with the round that it happened in; an error before the first round has none."""
    return error.with_details(round=number, **facts) if number and isinstance(error, TaskFailed) else error


def _parse_decision(verdict: Any) -> tuple[bool, Any]:
    """Parse the result of the controller: whether to stop, and the final value or the next state."""
    if verdict.__class__ is list and len(verdict) == 2 and verdict[0] in ("stop", "continue"):
        return verdict[0] == "stop", verdict[1]
    raise program_error(
        "bad-value", "the controller must return (list 'stop value) or (list 'continue state); "
        f"it returned {kind_of(verdict)}",
    )  # fmt: skip


def compile_parallel(compiler: Compiler, node: ast.Parallel, is_tail: bool) -> Code:
    items = [compiler.compile(item) for item in node.items]

    def run_parallel(env: Env) -> list[Any]:
        try:
            return compiler.machine.each(len(items), lambda index: items[index](env))
        except Exception as error:
            raise with_location(error, node, "parallel", env) from None

    return run_parallel


def compile_with_timeout(compiler: Compiler, node: ast.WithTimeout, is_tail: bool) -> Code:
    seconds, body = compiler.compile(node.seconds), compiler.compile(node.body)
    machine = compiler.machine

    def bounded(env: Env) -> Any:
        limit = seconds(env)
        try:
            if not is_number(limit) or limit < 0:
                raise program_error("wrong-type", f"with-timeout takes seconds; this is {_describe(limit)}")
            return machine.within_limits(machine.timed_scope(min(limit, MAX_AMOUNT)), lambda: body(env))
        except Exception as error:
            raise with_location(error, node, "with-timeout", env) from None

    return bounded


def compile_with_budget(compiler: Compiler, node: ast.WithBudget, is_tail: bool) -> Code:
    limits = [(name, compiler.compile(value)) for name, value in node.limits]
    body, machine = compiler.compile(node.body), compiler.machine

    def bounded(env: Env) -> Any:
        values = {name: value(env) for name, value in limits}
        try:
            for name, value in values.items():
                if not is_number(value) or value < 0:
                    raise program_error(
                        "wrong-type", f"the budget :{name} is a number from 0; this is {_describe(value)}"
                    )
            most = {name: min(value, MAX_AMOUNT) for name, value in values.items()}
            scope = Scope(most, current_branch().scope)
            return machine.within_limits(scope, lambda: body(env))
        except Exception as error:
            raise with_location(error, node, "with-budget", env) from None

    return bounded


def compile_condition(compiler: Compiler, node: ast.Condition, is_tail: bool) -> Code:
    condition = parse_condition(node.text, node.span)
    meter = compiler.machine.meter

    def hold(env: Env) -> bool:
        seen: dict[str, Any] = {}

        def lookup(name: str) -> Any:
            if name not in seen:
                seen[name] = as_condition_value(env[name], meter)
            return seen[name]

        try:
            return condition.holds(lookup)
        except ConditionError as error:  # has its location inside the condition
            failure = program_error(error.problem.code, error.problem.message)
            raise failure.at(error.span, node.text) from None
        except ProgramError as error:  # a value cannot be converted
            raise with_location(error, node) from None

    return hold


def as_condition_value(value: Any, meter: Meter) -> Any:
    """Return a value as conditions see it: a task result as a dict of its fields and its parsed content."""
    if value.__class__ is TaskResult:
        parsed = value.parsed_content
        value = {**(parsed if parsed.__class__ is dict else {}), **fields_of(value)}
    is_json, parts = scan_json(value)
    meter.count(parts >> (8 if is_json else 4))  # a copy takes longer than a scan
    return value if is_json else to_json(value)


_QUERY_FIELDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "query": ("query", to_text),
    "inputs": ("inputs", to_json),
    "strategy": ("matching_strategy", to_text),
    "inherited": ("inherited_context", to_text),
    "previous": ("previous_outputs", to_text),
    "limit": ("limit", to_json),
    "rerank": ("rerank", bool),
    "template-description": ("template_description", to_text),
    "template-type": ("template_type", to_text),
    "template-subtype": ("template_subtype", to_text),
}


def compile_get_context(compiler: Compiler, node: ast.GetContext, is_tail: bool) -> Code:
    if not node.keywords:
        raise invalid_program(node.span, "missing-field", NO_CONTEXT_QUERY)
    keywords = [(*_QUERY_FIELDS[name], compiler.compile(value)) for name, value in node.keywords]
    machine = compiler.machine

    def ask(env: Env) -> Any:
        fields = {field: convert(value(env)) for field, convert, value in keywords}
        try:
            if not isinstance(fields.get("inputs", {}), dict):
                raise program_error("wrong-type", f":inputs is a dict; this is {kind_of(fields['inputs'])}")
            _check_query(fields)
            query = ContextQuery(**fields)
            step = Step(machine.next_key(), query, node.span)
            return machine.wait(machine.effects.get_context(step, query))
        except Exception as error:
            raise with_location(error, node, "get-context", env) from None

    return ask


def _check_query(fields: dict[str, Any]) -> None:
    for name, (field, _) in _QUERY_FIELDS.items():
        if field in fields and (problem := validate_context_keyword(name, fields[field])) is not None:
            if isinstance(fields[field], str):
                raise program_error("bad-value", problem)
            raise program_error("wrong-type", f"{problem}; this is {_describe(fields[field])}")


def _require_count(value: Any, what: str) -> int:
    if value.__class__ is not int or value < 0:
        raise program_error("wrong-type", f"{what} is a whole number from 0; this is {_describe(value)}")
    return int(value)


def _describe(value: Any) -> str:
    return str(value) if is_number(value) else kind_of(value)


CONTROL_FORMS: dict[type[ast.Node], Form] = {
    ast.If: compile_if,
    ast.Cond: compile_cond,
    ast.And: compile_and,
    ast.Or: compile_or,
    ast.Try: compile_try,
    ast.Loop: compile_loop,
    ast.IterativeLoop: compile_iterative_loop,
    ast.Parallel: compile_parallel,
    ast.WithTimeout: compile_with_timeout,
    ast.WithBudget: compile_with_budget,
    ast.Condition: compile_condition,
    ast.GetContext: compile_get_context,
}
