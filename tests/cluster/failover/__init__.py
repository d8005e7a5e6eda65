"""Clients at work while leaders, coordinators and controllers change."""
