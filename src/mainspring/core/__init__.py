"""The use cases: what callers, schedulers and workers share, in terms of ports alone."""
