"""The names that a director-evaluator loop binds."""

LOOP_NAMES = (
    "user_query",
    "evaluation_feedback",
    "current_iteration",
    "max_iterations",
    "director_result",
    "script_output",
    "script_errors",
    "script_exit_code",
    "evaluation",
)
"""What the parts of a loop can name; nil as long as there is nothing."""
