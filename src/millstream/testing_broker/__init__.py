"""What `millstream.testing.Broker` is made of, beyond a broker: a clock that jumps, requests that fail, records in and out."""
