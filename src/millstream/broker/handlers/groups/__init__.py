"""Groups: membership, offsets and what operators ask."""
