"""Groups of the new protocol: ConsumerGroupHeartbeat (KIP-848)."""
