"""The four-legged breeds as proportions: what makes a dachshund a dachshund, in hundredths of the picture's width.

Birds, buses, trucks, bowls and cups have their breeds in `art/breeds.shapes`.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Build:
    """Proportions of one breed. Words name a variant that `animals.py` and `heads.py` know how to draw."""

    head: float  # radius
    length: float
    girth: float
    leg: float
    limb: float = 3.4  # thickness of a leg
    neck: float = 0.0  # from shoulder to head, beyond what a short neck needs
    muzzle: float = 1.0
    ear: str = "point"
    tail: str = "thin"
    coat: str = "plain"
    main: str = "black, white, gray, orange, brown, beige"
    accent: str = "white"


PETS = "black, white, gray, brown, beige, orange, tan"

BREEDS: dict[str, dict[str, Build]] = {
    "cat": {
        "tabby": Build(11.9, 25, 11.5, 10, 3.6, coat="tabby", main=PETS),
        "siamese": Build(10.4, 24, 9, 12.5, 2.8, ear="tall", tail="whip", coat="points", main="beige, white, tan, gray"),
        "persian": Build(13.6, 24, 14, 7, 4.4, ear="small", tail="bushy", coat="fluff", muzzle=0.6, main=PETS),
        "sphynx": Build(10.7, 23, 8.6, 12, 2.6, ear="huge", tail="whip", coat="wrinkle", main="beige, tan, gray, black, brown"),
        "tuxedo": Build(11.9, 25, 11.5, 10, 3.6, coat="bib", main="black, gray, dark brown, orange"),
        "calico": Build(11.9, 25, 11.8, 10, 3.6, coat="patches", main="white, beige", accent="orange, black, brown"),
    },
    "dog": {
        "labrador": Build(11.2, 27, 12.5, 12, 4, ear="flop", tail="up", main=PETS),
        "dachshund": Build(10.2, 33, 9.4, 5, 3.6, ear="long", tail="thin", muzzle=1.25, main=PETS),
        "poodle": Build(10.7, 23, 11, 12, 3.2, ear="puff", tail="pom", coat="curls", main=PETS),
        "bulldog": Build(13.1, 25, 14, 8, 5, ear="fold", tail="stub", coat="bib", muzzle=1.5, main=PETS),
        "husky": Build(11.7, 26, 13, 11.5, 4, ear="wolf", tail="curl", coat="mask", main="gray, black, brown, tan, orange"),
        "dalmatian": Build(10.9, 27, 11, 13, 3.4, ear="flop", tail="thin", coat="spots", main="white, beige", accent="black, brown"),
    },
    "bear": {
        "brown bear": Build(8.8, 32, 17, 8, 6.4, ear="round", tail="stub", coat="hump", main="brown, dark brown, light brown"),
        "polar bear": Build(7.8, 34, 16, 9, 6.2, 4, ear="tiny", tail="stub", main="white, beige"),
        "panda": Build(10.4, 28, 17, 7, 6.4, ear="round", tail="stub", coat="panda", main="white", accent="black"),
        "black bear": Build(8.4, 29, 14.6, 9, 5.4, ear="round", tail="stub", coat="snout", main="black", accent="tan"),
    },
    "elephant": {
        "african elephant": Build(11, 34, 21, 13, 7, ear="vast", tail="tuft", main="gray, silver, brown", accent="ivory"),
        "asian elephant": Build(11, 33, 19, 12, 6.6, ear="ample", tail="tuft", coat="dome", main="gray, brown, dark brown", accent="ivory"),
        "forest elephant": Build(10, 29, 17, 11, 5.6, ear="oval", tail="tuft", coat="tusks", main="dark brown, gray, brown", accent="ivory"),
        "elephant calf": Build(10, 22, 14, 9, 5, ear="ample", tail="tuft", coat="fuzz", main="gray, silver, light brown", accent="ivory"),
    },
    "horse": {
        "thoroughbred": Build(5.2, 30, 12, 18, 2.8, 12, ear="up", tail="flow", main="brown, black, dark brown, light brown", accent="black"),
        "pinto": Build(5.2, 29, 12.6, 16, 3, 11, ear="up", tail="flow", coat="patches", main="white, beige", accent="brown, black"),
        "clydesdale": Build(6.2, 30, 15.5, 16, 4, 10, ear="up", tail="flow", coat="feathers", main="brown, black, dark brown", accent="white"),
        "shetland pony": Build(6, 26, 14, 9, 3.2, 8, ear="up", tail="flow", coat="shag", main="brown, tan, gray, white", accent="beige"),
        "appaloosa": Build(5.2, 29, 12.6, 16, 3, 11, ear="up", tail="flow", coat="rump", main="gray, light brown, brown", accent="white"),
    },
    "zebra": {
        "plains zebra": Build(5.4, 29, 13.6, 14, 3.2, 9, ear="up", tail="tuft", coat="wide", main="white", accent="black"),
        "grevy's zebra": Build(5.6, 29, 13, 15, 3, 10, ear="big", tail="tuft", coat="fine", main="white", accent="black"),
        "mountain zebra": Build(5.2, 27, 13, 13, 3.2, 9, ear="up", tail="tuft", coat="belly", main="white", accent="black"),
        "quagga": Build(5.4, 29, 13.6, 14, 3.2, 9, ear="up", tail="tuft", coat="half", main="light brown", accent="dark brown"),
    },
    "giraffe": {
        "reticulated giraffe": Build(4.2, 20, 10.5, 20, 2.8, 27, ear="side", tail="tuft", coat="net", main="beige", accent="brown"),
        "masai giraffe": Build(4.2, 20, 10.5, 20, 2.8, 27, ear="side", tail="tuft", coat="jagged", main="tan", accent="dark brown"),
        "nubian giraffe": Build(4.2, 20, 10.5, 20, 2.8, 27, ear="side", tail="tuft", coat="stockings", main="gold", accent="maroon"),
        "giraffe calf": Build(4.4, 15, 9.5, 17, 2.6, 17, ear="side", tail="tuft", coat="net", main="beige", accent="orange"),
    },
    "cow": {
        "holstein": Build(6.2, 32, 16.5, 10, 3.6, 4, ear="side", tail="tuft", coat="patches", main="white", accent="black"),
        "angus": Build(6.4, 31, 17.5, 8, 4, 3, ear="side", tail="tuft", coat="polled", main="black, maroon"),
        "highland": Build(6.8, 29, 17, 8, 4, 3, ear="side", tail="tuft", coat="shag", main="orange, brown, tan"),
        "longhorn": Build(6, 31, 14.5, 11, 3.4, 4, ear="side", tail="tuft", coat="horns", main="light brown, white, maroon", accent="white"),
        "jersey": Build(6, 29, 14.5, 10, 3.2, 4, ear="side", tail="tuft", coat="snout", main="tan, light brown", accent="white"),
    },
    "sheep": {
        "merino": Build(5.4, 25, 17, 7, 2.4, 1, ear="side", tail="stub", coat="wool", main="white, beige", accent="tan"),
        "suffolk": Build(5.6, 25, 16, 8, 2.4, 1, ear="side", tail="stub", coat="wool", main="white", accent="black"),
        "ram": Build(5.8, 26, 16, 8, 2.8, 1, ear="side", tail="stub", coat="ram", main="beige, gray, white", accent="light brown"),
        "black sheep": Build(5.4, 24, 16, 7, 2.4, 1, ear="side", tail="stub", coat="wool", main="black, dark brown", accent="black"),
        "lamb": Build(5.8, 18, 12, 8, 2.2, 1, ear="flop", tail="long", coat="wool", main="white", accent="pink"),
    },
}
