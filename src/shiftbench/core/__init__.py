"""What knows nothing of the field: errors, randomness, files, arrays, registries."""
