"""All questions, by the number of the lesson; a lesson's module loads when it is first asked for."""

from __future__ import annotations

from importlib import import_module

from ddp_lessons.quiz.question import Question

MODULES = (
    "first_ranks",
    "meeting",
    "messages",
    "collectives",
    "ring",
    "gradients",
    "sharing",
    "wrapper",
    "digits",
    "training_script",
    "same_accuracy",
    "standstills",
    "capstone",
    "step_speed",
    "machines",
    "shards",
    "debug_a_job_at_work",
    "backends",
)


def questions_of(lesson: int) -> tuple[Question, ...]:
    """Raises ValueError where there is no such lesson."""
    if type(lesson) is not int or not 0 <= lesson < len(MODULES):
        raise ValueError(f"there is no lesson {lesson!r}: give its number, 0 to {len(MODULES) - 1}")
    module = import_module(f"ddp_lessons.quiz.bank.{MODULES[lesson]}_questions")
    questions: tuple[Question, ...] = module.QUESTIONS
    return questions
