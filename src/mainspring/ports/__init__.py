"""What the core needs from the world, as small Protocols in the words of the domain.

The docstrings state what an adapter must guarantee: atomicity, order, errors. No driver type and
no SQL crosses these seams. One conformance suite runs over every adapter of a port.
"""
