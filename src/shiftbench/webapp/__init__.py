"""The studio: a local web app over the collections, benchmarks, runs, scores and audits that lie in a folder.

A view is a function from its state (what stands in the URL) to an answer (plain data), in `*_view.py`, and a function
from that answer to a page, in `page/*.js`. It computes with the functions that the verbs call, and keeps nothing of its
own but a cache.
"""
