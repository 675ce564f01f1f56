"""gRPC: the routes of the REST API said in another way, and a stream for workers."""
