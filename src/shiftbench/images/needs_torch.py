"""Imported first by every part that trains: says which extra to install where torch is missing."""

from shiftbench.core.later import load_torch

load_torch()
