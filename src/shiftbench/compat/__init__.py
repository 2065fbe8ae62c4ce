"""Other packages' interfaces and numbers, answered by shiftbench."""
