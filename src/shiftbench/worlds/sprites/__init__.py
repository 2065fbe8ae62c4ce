"""Sprites: dSprites' grid of squares, ellipses and hearts, painted red, green and blue, drawn by our own code."""

from shiftbench.worlds.sprites.grid import CELLS as CELLS
from shiftbench.worlds.sprites.grid import VALUES as VALUES
from shiftbench.worlds.sprites.grid import draw as draw
from shiftbench.worlds.sprites.grid import factors as factors
from shiftbench.worlds.sprites.grid import order as order
from shiftbench.worlds.sprites.grid import sprites as sprites
