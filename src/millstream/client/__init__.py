"""Raw conversations with brokers, for what handles batches and not messages: start with `cluster`. The paper's client is in `paper`."""
