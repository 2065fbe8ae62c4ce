"""The types between the stages: collections, benchmarks, predictions, scores."""
