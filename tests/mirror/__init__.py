"""Mirrors: raw batches that keep their offsets, from one cluster to another."""
