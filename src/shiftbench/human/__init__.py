"""Human baselines: a page where people sort images into two unnamed superclasses, and the scores of their answers."""

from shiftbench.human.answers import Answers, read_answers
from shiftbench.human.design import Design, Task, plan
from shiftbench.human.pages import Key, find_key, write_study
from shiftbench.human.people import HUMAN, human_scores, model_scores

__all__ = [
    "HUMAN", "Answers", "Design", "Key", "Task", "find_key", "human_scores", "model_scores", "plan",
    "read_answers", "write_study",
]
