"""Talking to brokers: connections of our own for raw batches (start with `cluster`), and the client of the paper above them."""
