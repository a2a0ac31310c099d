"""What a command says that ends because people are waited for."""

from collections.abc import Sequence

from weft.cli.saying import say
from weft.cli.text import printable
from weft.tasks.questions import question_text
from weft.tasks.record import JsonObject, Task


def tell_what_is_asked(questions: Sequence[Task], *, then: str) -> None:
    """Say what is asked, how to answer, and which command goes on afterwards."""
    for question in questions:
        say(f"waits for an answer: {printable(question_text(question))}")
        say(f"answer with: weft tasks answer {question.id} TEXT")
    say(f"then go on with: {then}")


def asked_json(questions: Sequence[Task]) -> JsonObject:
    """The part of a JSON document that says so; empty: nobody is asked anything."""
    asked = [{"id": task.id, "question": question_text(task)} for task in questions]
    return {"questions": asked} if asked else {}
