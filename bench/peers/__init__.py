"""The brokers a benchmark can start: Millstream itself and those it is compared with."""
