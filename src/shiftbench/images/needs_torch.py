"""Every module that trains imports this first: if torch is missing, the error names the extra to install."""

from shiftbench.core.later import load_torch

load_torch()
