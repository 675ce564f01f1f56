"""What knows the outside world, one package for each part. Adapters do not know each other."""
