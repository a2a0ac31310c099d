"""Executors: the code that performs task records."""

from weft.executors.protocol import Cancellable, ExecutionFailed, Executor, Work
from weft.executors.registry import DuplicateExecutor, ExecutorRegistry, UnknownExecutor, executor

__all__ = [
    "Cancellable",
    "DuplicateExecutor",
    "ExecutionFailed",
    "Executor",
    "ExecutorRegistry",
    "UnknownExecutor",
    "Work",
    "executor",
]
