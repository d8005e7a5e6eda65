"""Faults, for real: three broker processes, a proxy on every link, load, a seeded schedule of faults, and a checker of what is left."""
