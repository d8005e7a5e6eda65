"""Replicas: the controller, placement, in-sync sets and the high watermark."""
