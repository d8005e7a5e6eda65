"""Two datacentres: a live cluster, an offline cluster with a copy of it, faults between and in them, and an audit that is exact."""
