"""Meta-graphs: the subsets of a class, how they overlap, their communities, and how far apart they lie (MetaShift)."""
