"""The ready queue in Redis or Valkey: sorted sets of ids and scripts that move them.

What belongs to one slice has one hash tag in its keys, so each script works on one node of a
cluster. Scripts may be repeated. Payloads never come here.
"""
