"""Real Kafka clients, and raw requests, against a real broker process."""
