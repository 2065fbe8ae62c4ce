"""Scenes: pets, wild and farm animals, vehicles and tableware among the things of their places, drawn by vector art."""

from shiftbench.worlds.scenes.world import draw as draw
from shiftbench.worlds.scenes.world import scenes as scenes
