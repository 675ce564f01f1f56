"""Mainspring: a distributed task scheduler that never loses a task and starts it on time."""

__version__ = "0.1.0"
