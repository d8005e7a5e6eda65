"""Consumer groups: the classic and the KIP-848 machine, committed offsets, and their records. Pure: no waiting, no sockets, no disk."""
