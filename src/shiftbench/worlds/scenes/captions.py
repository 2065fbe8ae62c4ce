"""Five captions per scene, from what is in it and can be seen."""

from collections.abc import Mapping, Sequence

from shiftbench.arrays import Strs

PREPOSITIONS = {
    "street": "on the street", "parking lot": "in a parking lot", "park": "in a park", "yard": "in the yard",
    "beach": "on the beach", "lake": "by a lake", "farm": "on a farm", "field": "in a field",
    "savanna": "on the savanna", "forest": "in the forest", "snow": "in the snow", "airport": "at the airport",
    "plaza": "on a plaza",
}
LIGHTS = {"bright": "in bright light", "golden": "in golden light", "dark": "in the dark"}
STYLES = {"flat": "a flat drawing", "outlined": "an outlined drawing", "textured": "a drawing on rough paper",
          "pastel": "a pastel", "nocturne": "a picture in night colours"}
SOME = ("fruit", "coffee", "water", "hay")


def captions(factors: Mapping[str, Strs], near: Sequence[Sequence[str]]) -> list[list[str]]:
    """`near[i]` names the other objects of item i, the most visible first; each item gets five sentences."""
    columns = ("class", "breed", "colour", "size", "pose", "place", "weather", "light", "style")
    rows = zip(*(factors[name].tolist() for name in columns), near, strict=True)
    return [five(*row) for row in rows]


def five(kind: str, breed: str, colour: str, size: str, pose: str, place: str, weather: str, light: str, style: str,
         near: Sequence[str]) -> list[str]:
    where = PREPOSITIONS.get(place, f"in the {place}")
    doing = "" if pose == "still" else f" {pose}"
    full = breed if kind in breed else f"{breed} {kind}"
    beside = f" next to {listed(near[:1])}" if near else ""
    sky = LIGHTS[light] if weather == "none" else f"on a {weather} day"
    scene = f" with {listed(near[:3])}" if near else ""
    return [sentence(text) for text in (
        f"{a(colour)} {kind} {where}",
        f"{a(full)}{doing}{beside}",
        f"{listed([*near[:2], kind])} {where} {sky}",
        f"{a(size)} {colour} {kind}{doing} {LIGHTS[light]}{beside}",
        f"{STYLES[style]} of {a(full)} {where}{scene}")]


def a(word: str) -> str:
    """The word with its article."""
    return f"some {word}" if word in SOME else f"an {word}" if word[0] in "aeiou" else f"a {word}"


def listed(words: Sequence[str]) -> str:
    """`a sofa, a lamp and a cat`."""
    named = [a(word) for word in words]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
