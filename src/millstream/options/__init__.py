"""Options under Kafka's own names: what exists, what each takes, where its value comes from, how it is changed."""
