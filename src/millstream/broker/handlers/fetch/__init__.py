"""Fetch: sessions, attempts that wait, and the short way for repeated requests."""
