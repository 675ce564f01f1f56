"""The task store in PostgreSQL 15 or newer, and the server that Mainspring can bring itself."""
