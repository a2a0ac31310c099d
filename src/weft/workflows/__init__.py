"""Workflows in Python: steps that use each other's results, compiled to flows of records."""

from weft.workflows.checks import InvalidWorkflow
from weft.workflows.interfaces import ExecutorTasks, TaskInterface, TaskInterfaces
from weft.workflows.results import StepNotCompleted, WorkflowResult
from weft.workflows.steps import WorkflowStepDefinition
from weft.workflows.workflow import Workflow

__all__ = [
    "ExecutorTasks",
    "InvalidWorkflow",
    "StepNotCompleted",
    "TaskInterface",
    "TaskInterfaces",
    "Workflow",
    "WorkflowResult",
    "WorkflowStepDefinition",
]
