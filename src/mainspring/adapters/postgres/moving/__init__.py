"""Moving partitions from one shard to another while everything runs."""
