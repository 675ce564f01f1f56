"""Running tasks: the agent owns the leases, runner processes execute the handlers.

The agent (parent process) claims, renews and settles; it never runs a handler and never looks into
a payload. Runners (child processes) run handlers and know nothing of the store. So a handler that
blocks, leaks or crashes costs at most its own process, never a lease.
"""
