"""Tests of log.moving."""
