"""The brokers a benchmark can start: Penstock itself and those it is compared with."""
