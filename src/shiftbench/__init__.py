"""shiftbench: controlled, explained, measured distribution shifts."""

__version__ = "0.1.0"
