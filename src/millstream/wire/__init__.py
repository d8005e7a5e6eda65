"""Bytes to values and back, without any input or output: frames, record batches, compression, Produce and Fetch, kio for the rest."""
