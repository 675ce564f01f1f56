"""The duties of a scheduler process. Any number of processes may do them at the same time: every
write they make is guarded, so doing a duty twice changes nothing the second time.
"""
