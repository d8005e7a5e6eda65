"""Requests and answers as bytes, without waiting for anything."""
