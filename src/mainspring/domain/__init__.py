"""What a task is and what may happen to it.

Pure values and pure functions: no I/O, no clock, no environment, no randomness. Time, chance and
identity arrive as arguments. Everything else in the package imports from here and nothing here
imports from anywhere else in the package.
"""
