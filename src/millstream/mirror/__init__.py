"""Copies topics from one cluster to another, batch by batch and with their offsets."""
