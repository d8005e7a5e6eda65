"""Committed offsets: what is stored, its records, and when it expires."""
