"""Coordination of schedulers in etcd, through a small client of its own.

It speaks the few calls that coordination needs, from version 3 of the API, over `grpc.aio`. All of
them may be repeated, so whatever goes wrong on the way is answered by asking again, elsewhere.
"""
