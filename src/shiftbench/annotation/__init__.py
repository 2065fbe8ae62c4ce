"""Human baselines: a page where people sort images into two unnamed superclasses, and what their answers are worth."""

from shiftbench.annotation.answers import Answers, is_answers, read_answers
from shiftbench.annotation.folder import write_study
from shiftbench.annotation.human import HUMAN, human_scores, model_scores
from shiftbench.annotation.key import Key, find_key
from shiftbench.annotation.plan import Design, Task, plan

__all__ = [
    "HUMAN", "Answers", "Design", "Key", "Task", "find_key", "human_scores", "is_answers", "model_scores", "plan",
    "read_answers", "write_study",
]
