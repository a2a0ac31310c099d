"""Workflows in Python: steps that use each other's results, compiled to flows of records."""

from weft.workflows.checks import InvalidWorkflow
from weft.workflows.model import StepNotCompleted, WorkflowResult, WorkflowStepDefinition
from weft.workflows.task_interfaces import ExecutorTasks, TaskInterface, TaskInterfaces
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
