"""The API gateway: REST over ASGI. What it offers is in `core.gateway`; here is how it is said."""
