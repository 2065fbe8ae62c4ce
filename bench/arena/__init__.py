"""Planted contexts, and which of the tools that look for them find them."""
