"""Evaluates programs."""

from collections.abc import Mapping
from typing import Any

from weft.errors import WeftError, unexpected
from weft.evaluator.budget import EvaluationLimits
from weft.evaluator.builtins import BUILT_INS
from weft.evaluator.compiler import Compiler, Form
from weft.evaluator.conversion import from_python
from weft.evaluator.effects import Effects
from weft.evaluator.environment import Env, GlobalEnv
from weft.evaluator.errors import ProgramError, TaskFailed
from weft.evaluator.forms.bindings import NAME_FORMS, check_definable
from weft.evaluator.forms.calls import CALL_FORMS
from weft.evaluator.forms.control import CONTROL_FORMS
from weft.evaluator.forms.error_locations import with_expression, with_location
from weft.evaluator.functions import Code
from weft.evaluator.machine import Machine
from weft.evaluator.metered_effects import MeteredEffects
from weft.evaluator.operators import templates
from weft.evaluator.operators.atomic import AtomicTask
from weft.evaluator.operators.cond import compile_task_cond
from weft.evaluator.operators.director_loop import LoopTask
from weft.evaluator.operators.reduce import ReduceTask
from weft.evaluator.operators.script import ScriptTask
from weft.evaluator.operators.sequential import SequentialTask
from weft.evaluator.replay_log import History
from weft.evaluator.values import check_finite
from weft.language import ast
from weft.language.diagnostics import invalid_program
from weft.language.library import TaskLibrary, definition_of
from weft.language.source import NOWHERE
from weft.language.traversal import raise_recursion_limit
from weft.limits import MAX_PROGRAM_DEPTH
from weft.telemetry.spans import Span as TelemetrySpan
from weft.telemetry.spans import span


def _add_expressions(form: Form) -> Form:
    """Wrap a form so that errors with only a location also get the expression that failed."""

    def compile_task(compiler: Compiler, node: Any, is_tail: bool) -> Code:
        code = form(compiler, node, is_tail)

        def run(env: Env) -> Any:
            try:
                return code(env)
            except TaskFailed as error:
                if not error.lacks_expression:
                    raise
                raise with_expression(error, node) from error.__cause__

        return run

    return compile_task


_OPERATORS: Mapping[type[ast.Node], Form] = {
    ast.Atomic: lambda compiler, node, _: AtomicTask(compiler, node).run,
    ast.Script: lambda compiler, node, _: ScriptTask(compiler, node).run,
    ast.Sequential: lambda compiler, node, _: SequentialTask(compiler, node).run,
    ast.Reduce: lambda compiler, node, _: ReduceTask(compiler, node).run,
    ast.DirectorEvaluatorLoop: lambda compiler, node, _: LoopTask(compiler, node).run,
    ast.Reference: templates.compile_reference,
    ast.TaskCond: compile_task_cond,
    ast.Template: templates.compile_template,
}

_FORMS: Mapping[type[ast.Node], Form] = {
    **NAME_FORMS,
    **CALL_FORMS,
    **CONTROL_FORMS,
    **{kind: _add_expressions(form) for kind, form in _OPERATORS.items()},
}
"""Compiles each type of node."""


class Evaluator:
    """Evaluates programs; the definitions of a program stay for the next one."""

    def __init__(
        self,
        effects: Effects,
        *,
        library: TaskLibrary | None = None,
        limits: EvaluationLimits | None = None,
        history: History | None = None,
    ) -> None:
        """Create an evaluator. `history` holds what earlier evaluations of the same program recorded."""
        self.library = library if library is not None else TaskLibrary()
        self.global_env = GlobalEnv(self.library)
        self.global_env.update(BUILT_INS)
        self._machine = Machine(MeteredEffects(effects), limits=limits, history=history)
        self._compiler = Compiler(
            self._machine,
            self.library,
            _FORMS,
            global_env=self.global_env,
            call_template=templates.call_template,
            call_tool=templates.call_tool,
        )

    def bind(self, bindings: Mapping[str, Any]) -> None:
        """Bind global names for all later evaluations. Raise InvalidProgram for an unusable value."""
        self.global_env.update(_convert_bindings(bindings))

    async def evaluate(self, program: ast.Program, bindings: Mapping[str, Any] | None = None) -> Any:
        """Return the value of the last form; `bindings` are global names during the evaluation.

        Raise InvalidProgram before anything runs, TaskFailed or another WeftError afterwards.
        """
        given = _convert_bindings(bindings or {})
        try:
            with raise_recursion_limit(), _run_span(program):
                codes = self._compile(program)
                with self.global_env.bound(given):
                    return await self._machine.run(lambda: self._run(codes), scope=self._machine.new_scope())
        except TaskFailed as error:
            error.__context__ = None
            raise error.with_traceback(None) from None  # its frames are all internal, and may be thousands
        except WeftError:
            raise
        except Exception as error:
            raise unexpected(error, what="the evaluation failed") from error

    def _compile(self, program: ast.Program) -> list[tuple[ast.Node, Code]]:
        """Compile every form, then register the templates, all or none."""
        templates = [form for form in program.forms if isinstance(form, ast.Template)]
        forms = [form for form in program.forms if not isinstance(form, ast.Template)]
        try:
            codes = [(form, self._compiler.compile(form)) for form in forms]
        except RecursionError:
            message = f"the program nests too deeply; {MAX_PROGRAM_DEPTH} levels are allowed"
            raise invalid_program(NOWHERE, "program-too-deep", message) from None
        self._register(templates)
        return codes

    def _register(self, templates: list[ast.Template]) -> None:
        names: dict[str, ast.Template] = {}
        for template in templates:
            check_definable(template.name, template.span)
            if template.name in names or template.name in self.library:
                taken = names.get(template.name) or self.library.get_task(template.name).template
                message = f"the template '{template.name}' is defined twice (first at {taken.span})"
                raise invalid_program(template.span, "duplicate-name", message)
            names[template.name] = template
        for template in templates:
            self.library.register_task(definition_of(template))

    def _run(self, codes: list[tuple[ast.Node, Code]]) -> Any:
        value = None
        for _, code in codes:
            value = code(self.global_env)
        try:
            check_finite(value, self._machine.limits.size)
        except ProgramError as error:
            raise with_location(error, codes[-1][0]) from None
        return value


def _run_span(program: ast.Program) -> TelemetrySpan:
    source = next((form.span.source.name for form in program.forms), "")
    name = None if source.startswith("<") or not source else source

    def attributes() -> dict[str, Any]:
        return {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": name}

    return span(f"invoke_workflow {name}" if name else "invoke_workflow", "internal", attributes)


def _convert_bindings(bindings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bindings as values of the language. Raise InvalidProgram."""
    checked: dict[str, Any] = {}
    for name, value in bindings.items():
        if name == "taskLibrary":
            check_definable(name, NOWHERE)
        try:
            checked[name] = from_python(value)
        except ValueError as error:
            raise invalid_program(
                NOWHERE, "bad-value", f"the value of '{name}' cannot be used: {error}"
            ) from None
    return checked
