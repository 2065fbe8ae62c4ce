"""Shifts: rules by which training and test items are drawn from a collection. One file per construction."""

from shiftbench.shifts.conditions import CONDITIONS as CONDITIONS
from shiftbench.shifts.conditions import Noise as Noise
from shiftbench.shifts.conditions import Size as Size
from shiftbench.shifts.leave_one_domain_out import LeaveOneDomainOut as LeaveOneDomainOut
from shiftbench.shifts.low_data import LowData as LowData
from shiftbench.shifts.low_data import Spurious as Spurious
from shiftbench.shifts.low_data import Unseen as Unseen
from shiftbench.shifts.out_of_context import Context as Context
from shiftbench.shifts.recipe import Recipe as Recipe
from shiftbench.shifts.recipe import build as build
from shiftbench.shifts.shift import SHIFTS as SHIFTS
from shiftbench.shifts.shift import Shift as Shift
from shiftbench.shifts.shift import Under as Under
from shiftbench.shifts.splits import IID as IID
from shiftbench.shifts.splits import Given as Given
from shiftbench.shifts.splits import Temporal as Temporal
from shiftbench.shifts.subclasses import Breeds as Breeds
from shiftbench.shifts.subpopulation import Correlation as Correlation
from shiftbench.shifts.subpopulation import Subpopulation as Subpopulation
from shiftbench.shifts.subset import Subset as Subset
