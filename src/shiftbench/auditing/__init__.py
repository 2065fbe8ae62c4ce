"""Audits: the contexts in which a model fails, found on one part of the items and tested on the other."""
