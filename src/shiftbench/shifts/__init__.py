"""Shifts: rules by which training and test items are drawn from a collection. One file per construction."""

from shiftbench.shifts.base import SHIFTS as SHIFTS
from shiftbench.shifts.base import Shift as Shift
from shiftbench.shifts.correlation import Correlation as Correlation
from shiftbench.shifts.given import Given as Given
from shiftbench.shifts.recipe import Recipe as Recipe
from shiftbench.shifts.recipe import build as build
from shiftbench.shifts.subpopulation import Subpopulation as Subpopulation
from shiftbench.shifts.subset import Subset as Subset
