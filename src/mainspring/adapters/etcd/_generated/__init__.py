"""Written by tools/generate_protos.py from proto/; change the protos instead."""
