"""The twelve tasks of NOOCh (Madras & Zemel, 2021, §3.2) with the cue whose presence makes their environments."""

TASKS = {
    "car": "road",
    "bowl": "dining table",
    "boat": "sea",
    "fire hydrant": "pavement",
    "airplane": "sky-other",
    "cow": "grass",
    "backpack": "person",
    "cup": "dining table",
    "surfboard": "sea",
    "tie": "person",
    "sports ball": "playingfield",
    "kite": "sky-other",
}
"""Label -> strongest cue, in the words of COCO and COCO-Stuff. A task may have further cues, which `cues` finds."""

WORLD_TASKS = {
    "bus": "street",
    "elephant": "savanna",
    "horse": "farm",
    "giraffe": "savanna",
    "bear": "forest",
    "car": "street",
}
"""The like on the built-in world of scenes, where the cues are places."""


def slug(task: str) -> str:
    """A task as file names say it.

    >>> slug("fire hydrant")
    'fire_hydrant'
    """
    return task.replace(" ", "_")
