"""Published data sets, fetched to this machine: where they can be had, and how they get here whole."""
