"""Many runs: which, in what order, on which processes. Finished runs are found, never repeated."""
