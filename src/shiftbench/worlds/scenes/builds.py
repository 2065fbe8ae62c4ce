"""The four-legged breeds as proportions: what makes a dachshund a dachshund. The numbers are in `art/animals.table`.

Birds, buses, trucks, bowls and cups have their breeds in `art/breeds.shapes`.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Build:
    """Proportions of one breed; the words choose among the ears, tails and coats that can be drawn."""

    kind: str
    breed: str
    head: float  # radius
    length: float
    girth: float
    leg: float
    limb: float  # thickness of a leg
    neck: float
    muzzle: float
    ear: str
    tail: str
    coat: str
    main: tuple[str, ...]
    accent: tuple[str, ...]


def read_builds(text: str) -> list[Build]:
    """One breed per line: `class: breed | seven numbers | ear tail coat | main colours | accent colours`."""
    builds = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            title, numbers, words, main, accent = (part.strip() for part in line.split("|"))
            kind, breed = title.split(": ")
            head, length, girth, leg, limb, neck, muzzle = map(float, numbers.split())
            ear, tail, coat = words.split()
            builds.append(Build(kind, breed, head, length, girth, leg, limb, neck, muzzle, ear, tail, coat,
                                split(main), split(accent)))
    return builds


def split(words: str) -> tuple[str, ...]:
    """`red, light blue` as a tuple."""
    return tuple(word.strip() for word in words.split(","))
