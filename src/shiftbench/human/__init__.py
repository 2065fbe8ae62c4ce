"""Human baselines: a page where people sort images into two unnamed superclasses, and the scores of their answers."""

from shiftbench.human.answers import Answers, read_answers
from shiftbench.human.pages import Design, Key, Task, find_key, plan, write_study
from shiftbench.human.people import HUMAN, human_scores, model_scores

__all__ = [
    "HUMAN", "Answers", "Design", "Key", "Task", "find_key", "human_scores", "model_scores", "plan",
    "read_answers", "write_study",
]
