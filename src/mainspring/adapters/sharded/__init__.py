"""The task store in several parts: implements `ports.store.Store` on other stores, its shards.

Every task, key and schedule is in one shard, by its partition. What concerns one of them goes to
that shard; what concerns all is asked of every shard, and of those that answer the answers are put
together. No transaction ever spans two shards. Keys, namespaces and quotas are in the first shard.
"""
