"""Where the parts are put together: the only modules that build adapters.

Each module wires one role of a process, so that a role imports only what it needs.
"""
