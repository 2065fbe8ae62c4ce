"""Readers: one file per annotation format, each gives a Collection. They never filter, never guess, know of no split."""
