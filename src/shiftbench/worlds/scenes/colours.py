"""Named colours: the words of MetaShift's attribute ontology first, then the materials the art is made of."""

Rgb = tuple[int, int, int]

NAMED: dict[str, Rgb] = {
    # words an item may be tagged with
    "white": (238, 236, 230), "black": (52, 50, 56), "gray": (138, 140, 146), "silver": (186, 192, 200),
    "brown": (130, 84, 50), "dark brown": (84, 56, 40), "light brown": (176, 128, 84), "tan": (206, 168, 118),
    "beige": (226, 208, 176), "orange": (226, 138, 56), "red": (202, 58, 52), "maroon": (124, 44, 52),
    "pink": (232, 152, 166), "purple": (132, 88, 152), "blue": (62, 108, 188), "dark blue": (42, 62, 112),
    "light blue": (146, 194, 226), "green": (84, 148, 76), "yellow": (240, 200, 66), "gold": (212, 168, 60),
    "khaki": (186, 176, 126), "teal": (58, 142, 140),
    # materials and details
    "ink": (30, 28, 34), "paper": (250, 248, 240), "wood": (156, 108, 66), "pine": (198, 154, 102),
    "steel": (168, 176, 184), "glass": (176, 214, 232), "leaf": (74, 138, 66), "moss": (104, 148, 74),
    "olive": (136, 142, 72), "bark": (108, 78, 54), "grass": (122, 172, 84), "meadow": (150, 186, 92),
    "straw": (214, 190, 112), "sand": (234, 210, 156), "dirt": (168, 124, 82), "rock": (136, 132, 126),
    "brick": (178, 98, 76), "asphalt": (104, 106, 112), "concrete": (178, 176, 170), "tile": (206, 226, 228),
    "sea": (58, 132, 176), "lagoon": (74, 160, 172), "foam": (232, 244, 246), "snow": (240, 244, 250),
    "ice": (206, 222, 236), "rubber": (44, 44, 48), "skin": (238, 178, 168), "tongue": (226, 112, 126),
    "amber": (236, 182, 48), "iris": (150, 196, 84), "hoof": (70, 58, 50), "ivory": (246, 238, 214),
    "lamp": (255, 226, 138), "screen": (78, 112, 150),
}
