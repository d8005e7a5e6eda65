"""Raw conversations with brokers, for what handles batches and not messages: start with `connection`. The paper's client is in `paper`."""
