"""The names that a director-evaluator loop binds, and those that a cond has for an evaluator."""

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

EVALUATION = "evaluation"
"""What an evaluator said, as an object with `success` and `feedback`."""

JUDGED_NAMES = ("director_result", "last_output", "output")
"""What an evaluator can take that the criteria of a cond choose: the output before the cond.

The first is what evaluators of loops take, so that one template serves both."""

LOOP_TEXTS = frozenset({"evaluation_feedback", "director_result", "script_output", "script_errors"})
"""Those that are texts: an empty one as long as there is nothing, so that a prompt can show them at once."""
