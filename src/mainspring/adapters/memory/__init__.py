"""The task store in the memory of one process, for tests and for trying things out.

It keeps every promise of `ports.store` but one: nothing outlives the process.
"""
