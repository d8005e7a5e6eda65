"""A cluster in one process and in virtual time: seeded schedules of faults around the pure rules of `millstream.cluster`."""
