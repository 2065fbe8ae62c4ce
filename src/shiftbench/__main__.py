"""python -m shiftbench"""

from shiftbench.cli import main

main()
