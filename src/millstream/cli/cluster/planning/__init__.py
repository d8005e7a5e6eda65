"""Which broker should keep which partition: pure planners, from a layout to the replicas that partitions should have."""
