"""Four-legged animals: a breed's proportions and a pose become a sprite, looking left: body, legs, tail and coat."""

from shiftbench.worlds.scenes.heads import HEADS, STRIPED, Build, dog_profile
from shiftbench.worlds.scenes.pen import Pen, Point, Polygon

POSES: dict[str, tuple[str, ...]] = {
    "cat": ("sitting", "standing", "lying"),
    "dog": ("sitting", "standing", "lying", "walking"),
    "bear": ("sitting", "standing"),
    "horse": ("standing", "walking", "grazing"),
    "zebra": ("standing", "walking", "grazing"),
    "cow": ("standing", "walking", "grazing"),
    "sheep": ("standing", "walking"),
    "elephant": ("standing", "walking"),
    "giraffe": ("standing", "walking"),
}
PAWED = ("cat", "dog", "bear")


def animal(b: Build, pose: str) -> list[Polygon]:
    """The sprite of one breed in one pose."""
    pen = Pen()
    body = {"sitting": sitting, "lying": lying}.get(pose, standing)
    x, y = body(pen, b, pose) if b.kind in PAWED else on_hooves(pen, b, pose)
    draw = dog_profile if (b.kind, pose) == ("dog", "walking") else HEADS[b.kind]
    draw(pen.at(x, y, b.head), b)
    return pen.done


def sitting(pen: Pen, b: Build, pose: str) -> Point:
    """Draws the body from the front and says where the head is."""
    w, h = b.girth * 1.25, b.length * 0.52 + b.leg * 0.62
    limb = limb_ink(b)
    paw = "paper" if b.coat == "bib" else "main+" if limb == "main" else limb
    pen.oval("ink/25", w * 0.1, 0, w * 0.95, 1.8)
    tail(pen, b, w * 0.55, 2.5, 0.8)
    pen.blob("main", [(-w * 0.5, 0), (-w * 0.52, h * 0.3), (-w * 0.4, h * 0.75), (-w * 0.2, h * 1.08),
                      (w * 0.2, h * 1.08), (w * 0.42, h * 0.75), (w * 0.72, h * 0.36), (w * 0.74, 0.4)])
    markings(pen, b, -w * 0.5, 0, w * 0.8, h)
    pen.oval("accent" if b.coat == "panda" else "main-", w * 0.44, h * 0.22, w * 0.3, h * 0.23)
    pen.oval("main+" if limb == "main" else limb, w * 0.42, 1.3, w * 0.26, 1.6)
    for x in (-0.26 * w, 0.08 * w):
        pen.line(limb, b.limb, [(x, h * 0.6), (x - 0.4, b.limb * 0.5)])
        pen.oval(paw, x - 0.9, b.limb * 0.42, b.limb * 0.72, b.limb * 0.46)
        if b.coat == "curls":
            pen.oval("main+", x - 0.4, b.limb * 0.9, b.limb * 0.9, b.limb * 0.9)
    pen.line("main-", 0.6, [(-0.09 * w, h * 0.55), (-0.09 * w, 1)])
    if b.coat == "curls":
        for x, y in ((-0.3, 0.8), (0.3, 0.8), (0.0, 0.9), (-0.4, 0.6), (0.4, 0.55), (0, 0.6)):
            pen.oval("main+" if y > 0.7 else "main", x * w, y * h, w * 0.27, w * 0.23)
    return -w * 0.06, h + b.head * 0.62


def standing(pen: Pen, b: Build, pose: str) -> Point:
    """Draws the body from the side, still or walking, and says where the head is."""
    half, top = b.length / 2, b.leg + b.girth
    step = 2.4 if pose == "walking" else 0.4
    limb = limb_ink(b)
    far = f"{limb}-" if limb in ("main", "accent") else limb
    back = 0.2 * b.girth if b.coat == "hump" else 0.0
    pen.oval("ink/25", 0, 0, half * 1.05, 1.8)
    leg(pen, b, far, -half + 7.8, top - b.girth * 0.6, step)
    leg(pen, b, far, half - 3.0, top - b.girth * 0.6, -step)
    tail(pen, b, half - 1.5, top - b.girth * 0.25, 1.0)
    pen.blob("main", [(-half, top - b.girth * 0.3), (-half * 0.6, top + back), (0, top - 0.06 * b.girth),
                      (half * 0.65, top), (half, top - b.girth * 0.35), (half * 0.85, b.leg + b.girth * 0.12),
                      (0, b.leg + 0.02 * b.girth),
                      (-half * 0.7, b.leg - b.girth * 0.06), (-half, b.leg + b.girth * 0.3)])
    markings(pen, b, -half, b.leg, half, top)
    leg(pen, b, limb, -half + 4.0, top - b.girth * 0.65, -step)
    leg(pen, b, limb, half - 4.4, top - b.girth * 0.65, step)
    if b.coat == "curls":
        for k in range(5):
            pen.oval("main+" if k % 2 else "main", -half + 2 + k * half * 0.28, top - b.girth * (0.3 + 0.2 * (k % 2)),
                     b.girth * 0.4, b.girth * 0.36)
    x, y = -half - b.neck, top + b.neck * 0.5
    if b.neck:
        pen.line("main", b.head * 1.3, [(-half + 3, top - 4), (x, y)])
    return x + (b.kind == "cat"), y + b.head * (0.2 if b.kind == "bear" else 0.42)


def lying(pen: Pen, b: Build, pose: str) -> Point:
    """Draws the body at rest, from the side, and says where the head is."""
    half, top = b.length * 0.56, b.girth * 1.05
    limb = limb_ink(b)
    pen.oval("ink/25", 0, 0, half * 1.15, 1.8)
    tail(pen, b, half * 0.85, 3, 0.8)
    pen.blob("main", [(-half, 1), (-half * 0.9, top * 0.7), (-half * 0.4, top), (half * 0.3, top * 0.96),
                      (half * 0.85, top * 0.75), (half * 1.05, top * 0.3), (half, 0.3), (0, 0)])
    markings(pen, b, -half, 0, half, top)
    pen.oval("main-", half * 0.55, top * 0.36, half * 0.34, top * 0.36)
    pen.oval(limb, half * 0.36, 1.6, half * 0.34, 1.9)
    pen.line(limb, b.limb, [(-half * 0.45, b.limb * 0.55), (-half * 1.15, b.limb * 0.5)])
    pen.oval("paper" if b.coat == "bib" else limb, -half * 1.18, b.limb * 0.55, b.limb * 0.7, b.limb * 0.52)
    if b.coat == "curls":
        for k in range(4):
            pen.oval("main+" if k % 2 else "main", half * (0.32 * k - 0.6), top * 0.75, b.girth * 0.36, b.girth * 0.32)
    return -half * 0.72, top * 0.75 + b.head * 0.55


def on_hooves(pen: Pen, b: Build, pose: str) -> Point:
    """Draws a large animal from the side, neck included, and says where the head is."""
    half, top = b.length / 2, b.leg + b.girth
    step = 3.0 if pose == "walking" else 0.6
    limb = "paper-" if b.coat == "stockings" else "accent" if b.kind == "sheep" else "main"
    far = limb if limb == "paper-" else f"{limb}-"
    low = 0.1 if b.kind in ("cow", "elephant", "sheep") else 0.0
    slope = b.girth * 0.35 if b.kind == "giraffe" else 0.0
    hoofed = b.kind != "elephant"
    pen.oval("ink/25", 0, 0, half * 1.1, 2)
    leg(pen, b, far, -half + 8.2, top - b.girth * 0.6, step, hoofed)
    leg(pen, b, far, half - 3.8, top - b.girth * 0.6, -step, hoofed)
    tail(pen, b, half - 1, top - b.girth * 0.2, 1.0)
    shoulder, head = (-half + 4, top - b.girth * 0.3 + slope), head_place(b, half, top, pose)
    if b.neck > 1:
        (x0, y0), (x1, y1), width = shoulder, head, b.girth * (0.42 if b.kind == "giraffe" else 0.62)
        pen.poly("main", [(x0 - width * 0.55, y0 - width * 0.55), (x1 - b.head * 0.75, y1 - b.head * 0.2),
                          (x1 + b.head * 0.85, y1 + b.head * 0.25), (x0 + width * 0.95, y0 + width * 0.42)])
    pen.blob("main", [(-half, top - b.girth * 0.35), (-half * 0.7, top + slope), (0, top - 0.04 * b.girth),
                      (half * 0.7, top + 0.02 * b.girth), (half, top - b.girth * 0.35),
                      (half * 0.86, b.leg + b.girth * (0.14 - low)), (0, b.leg - low * b.girth),
                      (-half * 0.75, b.leg + 0.06 * b.girth), (-half * 0.98, b.leg + b.girth * 0.3)])
    if b.coat in ("wool", "ram"):
        for k in range(7):
            x = -half + k * b.length / 6
            pen.oval("main", x, top - b.girth * (0.22 if k in (0, 6) else 0.06), 4.4, 4)
            pen.oval("main-", x, b.leg + b.girth * 0.2, 4.2, 3.6)
        pen.oval("main", 0, b.leg + b.girth * 0.56, half * 1.08, b.girth * 0.42)
    thigh = b.leg + b.girth * (0.1 if b.kind == "sheep" else 0.45)
    leg(pen, b, limb, -half + 4, thigh, -step, hoofed)
    leg(pen, b, limb, half - 4, thigh, step, hoofed)
    hide(pen, b, half, top, shoulder, head)
    return head


def head_place(b: Build, half: float, top: float, pose: str) -> Point:
    """Where a large animal's head is: up, or down at the grass."""
    if b.kind == "elephant":
        return -half - b.head * 0.2, top - b.head * 0.25
    if b.kind == "sheep":
        return -half - b.head * 0.45, top - b.head * 0.3
    if pose == "grazing":
        return -half - b.head * 0.5 - b.neck * 0.2, b.head * 1.9
    if b.kind == "giraffe":
        return -half - b.neck * 0.24, top + b.neck
    return -half - b.neck * 0.42 - b.head * 0.2, top + b.neck * 0.62 - (b.head * 0.3 if b.kind == "cow" else 0)


# Legs, tails and coats.

def limb_ink(b: Build) -> str:
    return {"points": "dark_brown", "panda": "accent", "mask": "paper"}.get(b.coat, "main")


def leg(pen: Pen, b: Build, ink: str, x: float, top: float, lean: float, hoof: bool = False) -> None:
    """From the body at (x, top) down to the ground, `lean` further on."""
    foot, x1 = b.limb * 0.5, x + lean
    pen.line(ink, b.limb, [(x, top), (x1, foot)])
    if hoof:
        pen.rect("hoof", x1 - b.limb * 0.55, 0, b.limb * 1.1, 1.7)
    else:
        pen.oval("paper" if b.coat == "bib" else ink, x1 - b.limb * 0.2, foot * 0.9, b.limb * 0.68, b.limb * 0.48)
    if b.coat == "feathers":
        pen.poly("paper", [(x1 - b.limb * 0.5, 6), (x1 + b.limb * 0.5, 6), (x1 + b.limb, 0.5), (x1 - b.limb, 0.5)])
    elif b.coat == "curls":
        pen.oval("main+" if ink == "main" else ink, x1, b.limb * 0.9, b.limb * 0.95, b.limb * 0.9)
    elif b.coat in STRIPED and b.coat != "half":
        for y in range(4, int(top) - 3, 3):
            pen.over.line("accent", 0.9, [(x - 4, y), (x + 5, y + 0.6)])


def tail(pen: Pen, b: Build, x: float, y: float, k: float) -> None:
    """From the body at (x, y); `k` is smaller for a tail seen from the front."""
    ink = "dark_brown" if b.coat == "points" else "main-"
    if b.tail in ("thin", "whip"):
        pen.line(ink, 1.5 if b.tail == "whip" else 2.3,
                 [(x, y), (x + 5 * k, y + 1.5), (x + 8 * k, y + 6), (x + 7.4 * k, y + 11), (x + 9.5 * k, y + 14)])
    elif b.tail == "bushy":
        pen.blob(ink, [(x - 1, y - 1), (x + 7 * k, y), (x + 12 * k, y + 7), (x + 11 * k, y + 15), (x + 7 * k, y + 17),
                       (x + 5 * k, y + 9), (x - 1, y + 3)])
    elif b.tail == "up":
        pen.line(ink, 2.6, [(x, y), (x + 5 * k, y + 4), (x + 8 * k, y + 10)])
    elif b.tail == "curl":
        pen.blob(ink, [(x - 1, y), (x + 6 * k, y + 3), (x + 7 * k, y + 10), (x + 1 * k, y + 13), (x - 3 * k, y + 9),
                       (x + 1 * k, y + 7), (x - 2, y + 3)])
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
        pen.oval(ink, x + 2.4, y - 4, 1.8, 5)
    else:  # flow, a horse's
        pen.blob(mane_ink(b), [(x - 1, y + 1.5), (x + 4, y + 2), (x + 6.4, y - 5), (x + 5.4, y - 14), (x + 3.4, y - 17),
                               (x + 2.4, y - 8), (x - 1, y - 2)])


def mane_ink(b: Build) -> str:
    return {"patches": "paper-", "rump": "ink", "feathers": "ink"}.get(b.coat, "accent")


def markings(pen: Pen, b: Build, x0: float, y0: float, x1: float, y1: float) -> None:
    """A pawed animal's coat, over the body drawn so far, which fills the box x0..x1, y0..y1."""
    w, h, over = x1 - x0, y1 - y0, pen.over
    if b.coat == "tabby":
        for k in range(5):
            x = x0 + w * (0.2 + 0.16 * k)
            over.poly("main--", [(x, y1 + 3), (x + 2.2, y1 + 3), (x + 1.4, y0 + h * 0.4)])
    elif b.coat == "patches":
        over.blob("accent", [(x0 + w * 0.25, y1 + 3), (x0 + w * 0.6, y1 + 3), (x0 + w * 0.62, y0 + h * 0.6),
                             (x0 + w * 0.3, y0 + h * 0.5)])
        over.blob("black", [(x0 + w * 0.7, y1), (x1 + 2, y1 - 1), (x1 + 2, y0 + h * 0.3),
                            (x0 + w * 0.75, y0 + h * 0.4)])
        over.oval("accent", x0 + w * 0.3, y0 + h * 0.12, w * 0.14, h * 0.2)
    elif b.coat == "spots":
        for k, (u, v) in enumerate(scattered(16)):
            over.oval("accent", x0 + w * u, y0 + h * v, 1.2 + 0.4 * (k % 2), 1.1 + 0.3 * (k % 3))
    elif b.coat == "bib":
        over.oval("paper", x0 + w * 0.18, y0 + h * 0.35, w * 0.2, h * 0.62)
    elif b.coat == "mask":
        over.oval("paper", x0 + w * 0.25, y0 + h * 0.1, w * 0.42, h * 0.5)
    elif b.coat == "panda":
        over.poly("accent", [(x0 - 2, y0 - 2), (x0 + w * 0.36, y0 - 2), (x0 + w * 0.34, y1 + 4), (x0 - 2, y1 + 4)])
    elif b.coat == "wrinkle":
        for k in range(4):
            x = x0 + w * (0.25 + 0.15 * k)
            over.line("main-", 0.6, [(x, y0 + h * 0.85), (x + 1, y0 + h * 0.45)])
    elif b.coat == "fluff":
        for k in range(5):
            x, y = x0 + w * (0.08 + 0.14 * k), y0 + h * (0.42 + 0.1 * (k % 3))
            pen.oval("main+" if k % 2 else "main", x, y, w * 0.14, h * 0.26)


def hide(pen: Pen, b: Build, half: float, top: float, shoulder: Point, head: Point) -> None:
    """A large animal's coat, over body, neck and legs, and its mane."""
    (x0, y0), (x1, y1), over = shoulder, head, pen.over
    if b.coat in STRIPED:
        gap = 1.9 if b.coat == "fine" else 3.2
        foot = b.leg + b.girth * (0.4 if b.coat == "belly" else 0.1)
        for k in range(int(b.length * (0.4 if b.coat == "half" else 1.0) / gap)):
            x = -half + 1 + k * gap
            over.line("accent", gap * 0.42, [(x + 1, top + 2), (x - 1, foot)])
        rings = int(b.neck * 1.3 / gap) + 2
        for k in range(rings):
            x, y = x0 + (x1 - x0) * (k + 0.4) / rings, y0 + (y1 - y0) * (k + 0.4) / rings
            over.line("accent", gap * 0.42, [(x - 5, y - 2.4), (x + 6, y + 2.4)])
    elif b.coat == "patches":
        over.blob("accent", [(-half * 0.75, top + 2), (-half * 0.1, top + 2), (-half * 0.05, b.leg + b.girth * 0.4),
                             (-half * 0.55, b.leg + b.girth * 0.3)])
        over.blob("accent", [(half * 0.4, top + 2), (half + 2, top), (half + 2, b.leg + b.girth * 0.2),
                             (half * 0.55, b.leg + b.girth * 0.45)])
        over.oval("accent", half * 0.2, b.leg + 1, half * 0.2, b.girth * 0.2)
        over.oval("accent", (x0 + x1) / 2, (y0 + y1) / 2, b.neck * 0.24, b.neck * 0.2)
    elif b.coat == "rump":
        over.oval("accent", half * 0.72, top - b.girth * 0.2, half * 0.42, b.girth * 0.5)
        for u, v in scattered(9):
            over.oval("main", half * (0.5 + 0.5 * u), top - b.girth * v * 0.55, 0.8, 0.8)
    elif b.kind == "giraffe":
        for u, v in scattered(24):
            patch(over, b, -half + b.length * u, b.leg - 4 + (b.girth + 8) * v, 1.0)
        for k in range(10):
            patch(over, b, x0 + (x1 - x0) * k / 9 + (1.7 if k % 2 else -1.5), y0 + (y1 - y0) * k / 9, 0.8)
    elif b.kind == "elephant":
        over.oval("main-/50", 0, b.leg, half, b.girth * 0.22)
    elif b.coat == "shag" and b.kind == "cow":
        fringe(pen, b, half)
    if b.kind in ("horse", "zebra", "giraffe"):
        width = {"zebra": 2.4, "giraffe": 1.4}.get(b.kind, 5.0 if b.coat == "shag" else 3.4)
        edge, up = b.girth * (0.32 if b.kind == "giraffe" else 0.42), y1 > y0
        start, side = ((x0 + edge, y0 + edge * 0.6), 0.95) if up else ((x0 - edge, y0 + edge * 0.4), 0.2)
        pen.line(mane_ink(b) if b.kind == "horse" else "accent", width,
                 [start, (x1 + b.head * side, y1 + b.head * (1.15 - side)), (x1 + b.head * 0.3, y1 + b.head * 0.75)])
    if b.coat == "shag" and b.kind == "horse":
        fringe(pen, b, half)


def fringe(pen: Pen, b: Build, half: float) -> None:
    """Long hair that hangs below the belly."""
    for k in range(6):
        x = -half + 2 + k * b.length / 6
        pen.poly("main-", [(x, b.leg + 4), (x + b.length / 6, b.leg + 4), (x + 2, b.leg - 3)])


def patch(pen: Pen, b: Build, x: float, y: float, scale: float) -> None:
    """One patch of a giraffe."""
    frame = pen.at(x, y, scale * (2.0 if b.coat == "net" else 1.7))
    if b.coat == "jagged":
        frame.poly("accent", [(-1, 0), (-0.2, 0.4), (0, 1), (0.4, 0.3), (1, 0), (0.2, -0.5), (0, -1)])
    else:
        frame.poly("accent", [(-1, -0.4), (-0.5, 0.9), (0.7, 0.8), (1, -0.3), (0, -1)])


def scattered(n: int) -> list[Point]:
    """n places in the unit square, evenly but not regularly spread."""
    return [(k * 0.755 % 1.0, k * 0.57 % 1.0) for k in range(n)]
