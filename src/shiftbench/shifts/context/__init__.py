"""Criteria: which items are out of context. Areas, cues, gists, factor expressions, published lists; numbers only."""
