"""Run a finished model on a benchmark or a collection: what it takes, how its classes become labels, batch by batch."""
