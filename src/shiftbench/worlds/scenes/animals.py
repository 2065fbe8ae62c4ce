"""Four-legged bodies: a breed's proportions and a pose become a sprite."""

from collections.abc import Callable

from shiftbench.worlds.scenes import heads
from shiftbench.worlds.scenes.breeds import Build
from shiftbench.worlds.scenes.pen import Pen, Polygon

PETS = ("cat", "dog", "bear")
POSES: dict[str, tuple[str, ...]] = {
    "cat": ("sitting", "standing", "lying"), "dog": ("sitting", "standing", "lying", "walking"), "bear": ("sitting", "standing"),
    "horse": ("standing", "walking", "grazing"), "zebra": ("standing", "walking", "grazing"), "cow": ("standing", "walking", "grazing"),
    "sheep": ("standing", "walking"), "elephant": ("standing", "walking"), "giraffe": ("standing", "walking"),
}
STRIPED = ("wide", "fine", "belly", "half")
Head = Callable[[Pen, Build, float, float], None]


def animal(kind: str, build: Build, pose: str) -> list[Polygon]:
    """The sprite of one breed in one pose, looking left."""
    pen = Pen()
    if kind not in PETS:
        grazer(pen, kind, build, pose)
    elif pose == "sitting":
        sitting(pen, kind, build)
    elif pose == "lying":
        lying(pen, kind, build)
    else:
        standing(pen, kind, build, pose)
    return pen.done


def head_of(kind: str, pose: str) -> Head:
    if kind == "dog" and pose in ("walking",):
        return heads.dog_profile
    return {"cat": heads.cat, "dog": heads.dog, "bear": heads.bear, "elephant": heads.elephant, "horse": heads.horse,
            "zebra": heads.horse, "giraffe": heads.giraffe, "cow": heads.cow, "sheep": heads.sheep}[kind]


def sitting(pen: Pen, kind: str, b: Build) -> None:
    w, h = b.girth * 1.25, b.length * 0.52 + b.leg * 0.62
    limb = limb_ink(b)
    pen.oval("ink/25", w * 0.1, 0, w * 0.95, 1.8)
    tail(pen, b, w * 0.55, 2.5, 0.8)
    pen.blob("main", [(-w * 0.5, 0), (-w * 0.52, h * 0.3), (-w * 0.4, h * 0.75), (-w * 0.2, h * 1.08), (w * 0.2, h * 1.08), (w * 0.42, h * 0.75),
                      (w * 0.72, h * 0.36), (w * 0.74, 0.4)])
    coat(pen, b, -w * 0.5, 0, w * 0.8, h)
    pen.oval("main-" if b.coat != "panda" else "accent", w * 0.44, h * 0.22, w * 0.3, h * 0.23)
    pen.oval(limb + "+" if limb == "main" else limb, w * 0.42, 1.3, w * 0.26, 1.6)
    for x in (-0.26, 0.08):
        pen.line(limb, b.limb, [(x * w, h * 0.6), (x * w - 0.4, b.limb * 0.5)])
        pen.oval("paper" if b.coat == "bib" else limb + "+" if limb == "main" else limb, x * w - 0.9, b.limb * 0.42, b.limb * 0.72, b.limb * 0.46)
        if b.coat == "curls":
            pen.oval("main+", x * w - 0.4, b.limb * 0.9, b.limb * 0.9, b.limb * 0.9)
    pen.line("main-", 0.6, [(-0.09 * w, h * 0.55), (-0.09 * w, 1)])
    if b.coat == "curls":
        for x, y in ((-0.3, 0.8), (0.3, 0.8), (0.0, 0.9), (-0.4, 0.6), (0.4, 0.55), (0, 0.6)):
            pen.oval("main+" if y > 0.7 else "main", x * w, y * h, w * 0.27, w * 0.23)
    head_of(kind, "sitting")(pen, b, -w * 0.06, h + b.head * 0.62)


def standing(pen: Pen, kind: str, b: Build, pose: str) -> None:
    half, top = b.length / 2, b.leg + b.girth
    step = 2.4 if pose == "walking" else 0.4
    limb = limb_ink(b)
    pen.oval("ink/25", 0, 0, half * 1.05, 1.8)
    for x, lean in ((-half + 5.2, step), (half - 5.6, -step)):
        leg(pen, b, limb + "-" if limb in ("main", "accent") else limb, x + 2.6, b.leg + b.girth * 0.4, lean)
    tail(pen, b, half - 1.5, top - b.girth * 0.25, 1.0)
    back = 0.2 * b.girth if b.coat == "hump" else 0.0
    pen.blob("main", [(-half, top - b.girth * 0.3), (-half * 0.6, top + back), (0, top - 0.06 * b.girth), (half * 0.65, top), (half, top - b.girth * 0.35),
                      (half * 0.85, b.leg + b.girth * 0.12), (0, b.leg + 0.02 * b.girth), (-half * 0.7, b.leg - b.girth * 0.06), (-half, b.leg + b.girth * 0.3)])
    coat(pen, b, -half, b.leg, half, top)
    for x, lean in ((-half + 4, -step), (half - 4.4, step)):
        leg(pen, b, limb, x, b.leg + b.girth * 0.35, lean)
    if b.coat == "curls":
        for x in range(5):
            pen.oval("main+" if x % 2 else "main", -half + 2 + x * half * 0.28, top - b.girth * (0.3 + 0.2 * (x % 2)), b.girth * 0.4, b.girth * 0.36)
    reach = b.neck
    if reach:
        pen.line("main", b.head * 1.3, [(-half + 3, top - 4), (-half - reach, top + reach * 0.5)])
    head_of(kind, pose)(pen, b, -half - reach + (1 if kind == "cat" else 0), top + reach * 0.5 + b.head * (0.2 if kind == "bear" else 0.42))


def lying(pen: Pen, kind: str, b: Build) -> None:
    half, top = b.length * 0.56, b.girth * 1.05
    limb = limb_ink(b)
    pen.oval("ink/25", 0, 0, half * 1.15, 1.8)
    tail(pen, b, half * 0.85, 3, 0.8)
    pen.blob("main", [(-half, 1), (-half * 0.9, top * 0.7), (-half * 0.4, top), (half * 0.3, top * 0.96), (half * 0.85, top * 0.75), (half * 1.05, top * 0.3), (half, 0.3), (0, 0)])
    coat(pen, b, -half, 0, half, top)
    pen.oval("main-", half * 0.55, top * 0.36, half * 0.34, top * 0.36)
    pen.oval(limb, half * 0.36, 1.6, half * 0.34, 1.9)
    pen.line(limb, b.limb, [(-half * 0.45, b.limb * 0.55), (-half * 1.15, b.limb * 0.5)])
    pen.oval("paper" if b.coat == "bib" else limb, -half * 1.18, b.limb * 0.55, b.limb * 0.7, b.limb * 0.52)
    if b.coat == "curls":
        for x in range(4):
            pen.oval("main+" if x % 2 else "main", -half * 0.6 + x * half * 0.32, top * 0.75, b.girth * 0.36, b.girth * 0.32)
    head_of(kind, "lying")(pen, b, -half * 0.72, top * 0.75 + b.head * 0.55)


def grazer(pen: Pen, kind: str, b: Build, pose: str) -> None:
    """Hoofed and heavy animals from the side: body, neck, head at its end."""
    half, top = b.length / 2, b.leg + b.girth
    step = 3.0 if pose == "walking" else 0.6
    limb = "accent" if b.coat == "stockings" or kind == "sheep" else "main"
    limb = "paper-" if b.coat == "stockings" else limb
    pen.oval("ink/25", 0, 0, half * 1.1, 2)
    for x, lean in ((-half + 6, step), (half - 6, -step)):
        leg(pen, b, limb + ("-" if limb != "paper-" else ""), x + 2.2, b.leg + b.girth * 0.4, lean, hoof=kind != "elephant")
    tail(pen, b, half - 1, top - b.girth * 0.2, 1.0)
    low = 0.1 if kind in ("cow", "elephant", "sheep") else 0.0
    slope = b.girth * 0.35 if kind == "giraffe" else 0.0
    neck_from, neck_to = (-half + 4, top - b.girth * 0.3 + slope), head_place(kind, b, half, top, pose)
    if b.neck > 1:
        width = b.girth * (0.42 if kind == "giraffe" else 0.62)
        (x0, y0), (x1, y1) = neck_from, neck_to
        pen.poly("main", [(x0 - width * 0.55, y0 - width * 0.55), (x1 - b.head * 0.75, y1 - b.head * 0.2), (x1 + b.head * 0.85, y1 + b.head * 0.25),
                          (x0 + width * 0.95, y0 + width * 0.42)])
    pen.blob("main", [(-half, top - b.girth * 0.35), (-half * 0.7, top + slope), (0, top - 0.04 * b.girth), (half * 0.7, top + 0.02 * b.girth),
                      (half, top - b.girth * 0.35), (half * 0.86, b.leg + b.girth * (0.14 - low)), (0, b.leg - low * b.girth),
                      (-half * 0.75, b.leg + 0.06 * b.girth), (-half * 0.98, b.leg + b.girth * 0.3)])
    if b.coat in ("wool", "ram"):
        for k in range(7):
            x = -half + k * b.length / 6
            pen.oval("main", x, top - b.girth * (0.22 if k in (0, 6) else 0.06), 4.4, 4)
            pen.oval("main-", x, b.leg + b.girth * 0.2, 4.2, 3.6)
        pen.oval("main", 0, b.leg + b.girth * 0.56, half * 1.08, b.girth * 0.42)
    for x, lean in ((-half + 4, -step), (half - 4, step)):
        leg(pen, b, limb, x, b.leg + b.girth * (0.1 if kind == "sheep" else 0.45), lean, hoof=kind != "elephant")
    hide(pen, kind, b, half, top, neck_from, neck_to)
    head_of(kind, pose)(pen, b, *neck_to)


def head_place(kind: str, b: Build, half: float, top: float, pose: str) -> tuple[float, float]:
    """Where the head is: up, or down at the grass."""
    if kind == "elephant":
        return -half - b.head * 0.2, top - b.head * 0.25
    if kind == "sheep":
        return -half - b.head * 0.45, top - b.head * 0.3
    if pose == "grazing":
        return -half - b.head * 0.5 - b.neck * 0.2, b.head * 1.9
    if kind == "giraffe":
        return -half - b.neck * 0.24, top + b.neck
    return -half - b.neck * 0.42 - b.head * 0.2, top + b.neck * 0.62 - (b.head * 0.3 if kind == "cow" else 0)


def leg(pen: Pen, b: Build, ink: str, x: float, top: float, lean: float, hoof: bool = False) -> None:
    foot = b.limb * 0.5
    pen.line(ink, b.limb, [(x, top), (x + lean, foot)])
    if hoof:
        pen.rect("hoof", x + lean - b.limb * 0.55, 0, b.limb * 1.1, 1.7)
    else:
        pen.oval("paper" if b.coat == "bib" else ink, x + lean - b.limb * 0.2, foot * 0.9, b.limb * 0.68, b.limb * 0.48)
    if b.coat == "feathers":
        pen.poly("paper", [(x + lean - b.limb * 0.5, 6), (x + lean + b.limb * 0.5, 6), (x + lean + b.limb, 0.5), (x + lean - b.limb, 0.5)])
    if b.coat == "curls":
        pen.oval(ink + "+" if ink == "main" else ink, x + lean, b.limb * 0.9, b.limb * 0.95, b.limb * 0.9)
    if b.coat in STRIPED and b.coat != "half":
        pen.clip = True
        for y in range(4, int(top) - 3, 3):
            pen.line("accent", 0.9, [(x - 4, y), (x + 5, y + 0.6)])
        pen.clip = False


def limb_ink(b: Build) -> str:
    return {"points": "dark_brown", "panda": "accent", "mask": "paper"}.get(b.coat, "main")


def tail(pen: Pen, b: Build, x: float, y: float, k: float) -> None:
    ink = "dark_brown" if b.coat == "points" else "main-"
    if b.tail in ("thin", "whip"):
        width = 1.5 if b.tail == "whip" else 2.3
        pen.line(ink, width, [(x, y), (x + 5 * k, y + 1.5), (x + 8 * k, y + 6), (x + 7.4 * k, y + 11), (x + 9.5 * k, y + 14)])
    elif b.tail == "bushy":
        pen.blob(ink, [(x - 1, y - 1), (x + 7 * k, y), (x + 12 * k, y + 7), (x + 11 * k, y + 15), (x + 7 * k, y + 17), (x + 5 * k, y + 9), (x - 1, y + 3)])
    elif b.tail == "up":
        pen.line(ink, 2.6, [(x, y), (x + 5 * k, y + 4), (x + 8 * k, y + 10)])
    elif b.tail == "curl":
        pen.blob(ink, [(x - 1, y), (x + 6 * k, y + 3), (x + 7 * k, y + 10), (x + 1 * k, y + 13), (x - 3 * k, y + 9), (x + 1 * k, y + 7), (x - 2, y + 3)])
        pen.oval("paper", x, y + 10, 2.4, 2)
    elif b.tail == "pom":
        pen.line(ink, 1.8, [(x, y), (x + 5 * k, y + 6)])
        pen.oval("main+", x + 6 * k, y + 8.5, 3.4, 3.4)
    elif b.tail == "stub":
        pen.oval(ink, x + 1, y + 0.5, 2.4, 2)
    elif b.tail == "tuft":
        pen.line(ink, 1.2, [(x, y), (x + 3.4, y - 4), (x + 3.4, y - 9)])
        pen.oval("accent-" if b.coat in STRIPED else "main--", x + 3.4, y - 10.5, 1.3, 2.4)
    elif b.tail == "long":
        pen.oval("main-", x + 2.4, y - 4, 1.8, 5)
    else:  # flow
        pen.blob(mane_ink(b), [(x - 1, y + 1.5), (x + 4, y + 2), (x + 6.4, y - 5), (x + 5.4, y - 14), (x + 3.4, y - 17), (x + 2.4, y - 8), (x - 1, y - 2)])


def mane_ink(b: Build) -> str:
    return {"patches": "paper-", "rump": "ink", "feathers": "ink"}.get(b.coat, "accent")


def coat(pen: Pen, b: Build, x0: float, y0: float, x1: float, y1: float) -> None:
    """A pet's markings, clipped to the body drawn so far, in the box x0..x1, y0..y1."""
    w, h = x1 - x0, y1 - y0
    pen.clip = True
    if b.coat == "tabby":
        for k in range(5):
            x = x0 + w * (0.2 + 0.16 * k)
            pen.poly("main--", [(x, y1 + 3), (x + 2.2, y1 + 3), (x + 1.4, y0 + h * 0.4)])
    elif b.coat == "patches":
        pen.blob("accent", [(x0 + w * 0.25, y1 + 3), (x0 + w * 0.6, y1 + 3), (x0 + w * 0.62, y0 + h * 0.6), (x0 + w * 0.3, y0 + h * 0.5)])
        pen.blob("black", [(x0 + w * 0.7, y1), (x1 + 2, y1 - 1), (x1 + 2, y0 + h * 0.3), (x0 + w * 0.75, y0 + h * 0.4)])
        pen.oval("accent", x0 + w * 0.3, y0 + h * 0.12, w * 0.14, h * 0.2)
    elif b.coat == "spots":
        for k in range(16):
            pen.oval("accent", x0 + w * (k * 0.755 % 1.0), y0 + h * (k * 0.57 % 1.0), 1.2 + 0.4 * (k % 2), 1.1 + 0.3 * (k % 3))
    elif b.coat == "bib":
        pen.oval("paper", x0 + w * 0.18, y0 + h * 0.35, w * 0.2, h * 0.62)
    elif b.coat == "mask":
        pen.oval("paper", x0 + w * 0.25, y0 + h * 0.1, w * 0.42, h * 0.5)
    elif b.coat == "panda":
        pen.poly("accent", [(x0 - 2, y0 - 2), (x0 + w * 0.36, y0 - 2), (x0 + w * 0.34, y1 + 4), (x0 - 2, y1 + 4)])
    elif b.coat == "wrinkle":
        for k in range(4):
            x = x0 + w * (0.25 + 0.15 * k)
            pen.line("main-", 0.6, [(x, y0 + h * 0.85), (x + 1, y0 + h * 0.45)])
    pen.clip = False
    if b.coat == "fluff":
        for k in range(5):
            pen.oval("main+" if k % 2 else "main", x0 + w * (0.08 + 0.14 * k), y0 + h * (0.42 + 0.1 * (k % 3)), w * 0.14, h * 0.26)


def hide(pen: Pen, kind: str, b: Build, half: float, top: float, base: tuple[float, float], head: tuple[float, float]) -> None:
    """Markings and mane of the larger animals, clipped to body, neck and legs."""
    (x0, y0), (x1, y1) = base, head
    pen.clip = True
    if b.coat in STRIPED:
        gap = 1.9 if b.coat == "fine" else 3.2
        last = {"half": 0.4, "belly": 1.0}.get(b.coat, 1.0)
        for k in range(int(b.length * last / gap)):
            x = -half + 1 + k * gap
            pen.line("accent", gap * 0.42, [(x + 1, top + 2), (x - 1, b.leg + b.girth * (0.4 if b.coat == "belly" else 0.1))])
        steps = int(b.neck * 1.3 / gap) + 1
        for k in range(steps + 1):
            t = (k + 0.4) / (steps + 1)
            x, y = x0 + (x1 - x0) * t, y0 + (y1 - y0) * t
            pen.line("accent", gap * 0.42, [(x - 5, y - 2.4), (x + 6, y + 2.4)])
    elif b.coat == "patches":
        pen.blob("accent", [(-half * 0.75, top + 2), (-half * 0.1, top + 2), (-half * 0.05, b.leg + b.girth * 0.4), (-half * 0.55, b.leg + b.girth * 0.3)])
        pen.blob("accent", [(half * 0.4, top + 2), (half + 2, top), (half + 2, b.leg + b.girth * 0.2), (half * 0.55, b.leg + b.girth * 0.45)])
        pen.oval("accent", half * 0.2, b.leg + 1, half * 0.2, b.girth * 0.2)
        pen.oval("accent", (x0 + x1) / 2, (y0 + y1) / 2, b.neck * 0.24, b.neck * 0.2)
    elif b.coat == "rump":
        pen.oval("accent", half * 0.72, top - b.girth * 0.2, half * 0.42, b.girth * 0.5)
        for k in range(9):
            pen.oval("main", half * (0.5 + 0.5 * (k * 0.755 % 1)), top - b.girth * (k * 0.57 % 1) * 0.55, 0.8, 0.8)
    elif kind == "giraffe":
        size = 2.0 if b.coat == "net" else 1.7
        for k in range(24):
            x, y = -half + b.length * (k * 0.755 % 1.0), b.leg - 4 + (b.girth + 8) * (k * 0.57 % 1.0)
            spot(pen, b, x, y, size)
        for k in range(10):
            t = k / 9
            spot(pen, b, x0 + (x1 - x0) * t + (1.7 if k % 2 else -1.5), y0 + (y1 - y0) * t, size * 0.8)
    elif kind == "elephant":
        pen.line("main-", 0.8, [(-half * 0.2, b.leg + b.girth * 0.2), (half * 0.3, b.leg + b.girth * 0.12)])
        pen.oval("main-/50", 0, b.leg, half, b.girth * 0.22)
    pen.clip = False
    if kind in ("horse", "zebra", "giraffe"):
        width = {"zebra": 2.4, "giraffe": 1.4}.get(kind, 3.4 if b.coat != "shag" else 5.0)
        ink = mane_ink(b) if kind == "horse" else "accent"
        edge = b.girth * (0.32 if kind == "giraffe" else 0.42)
        start = (x0 + edge, y0 + edge * 0.6) if y1 > y0 else (x0 - edge, y0 + edge * 0.4)
        side = 0.95 if y1 > y0 else 0.2
        pen.line(ink, width, [start, (x1 + b.head * side, y1 + b.head * (1.15 - side)), (x1 + b.head * 0.3, y1 + b.head * 0.75)])
    if b.coat == "shag":
        for k in range(6):
            x = -half + 2 + k * b.length / 6
            pen.poly("main-", [(x, b.leg + 4), (x + b.length / 6, b.leg + 4), (x + 2, b.leg - 3)])


def spot(pen: Pen, b: Build, x: float, y: float, s: float) -> None:
    if b.coat == "jagged":
        pen.poly("accent", [(x - s, y), (x - s * 0.2, y + s * 0.4), (x, y + s), (x + s * 0.4, y + s * 0.3), (x + s, y), (x + s * 0.2, y - s * 0.5), (x, y - s)])
    else:
        pen.poly("accent", [(x - s, y - s * 0.4), (x - s * 0.5, y + s * 0.9), (x + s * 0.7, y + s * 0.8), (x + s, y - s * 0.3), (x, y - s)])
