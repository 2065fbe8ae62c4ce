"""Four-legged bodies: a breed's proportions and a pose become a sprite, looking left."""

from collections.abc import Callable

from shiftbench.worlds.scenes import heads
from shiftbench.worlds.scenes.builds import Build, hide, leg, limb_ink, markings, tail
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
HEADS: dict[str, Callable[[Pen, Build], None]] = {
    "cat": heads.cat, "dog": heads.dog, "bear": heads.bear, "elephant": heads.elephant, "horse": heads.horse,
    "zebra": heads.horse, "giraffe": heads.giraffe, "cow": heads.cow, "sheep": heads.sheep,
}


def animal(b: Build, pose: str) -> list[Polygon]:
    """The sprite of one breed in one pose."""
    pen = Pen()
    body = {"sitting": sitting, "lying": lying}.get(pose, standing)
    x, y = body(pen, b, pose) if b.kind in PAWED else on_hooves(pen, b, pose)
    draw = heads.dog_profile if (b.kind, pose) == ("dog", "walking") else HEADS[b.kind]
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
