"""What a broker publishes for Prometheus and for probes, by a process of its own: `/metrics`, `/health` and `/ready`."""
