"""Tests on real data, which come from package registries by name: `make test-real`."""
