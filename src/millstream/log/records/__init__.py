"""Batches and records of a log: checked, walked and searched."""
