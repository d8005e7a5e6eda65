"""The audit: what tiers report about the messages they passed on, and what the reports add up to. Pure: no waiting, no sockets."""
