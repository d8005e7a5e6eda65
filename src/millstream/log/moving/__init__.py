"""A log that moves to another data directory of its broker while it is in use (KIP-113)."""
