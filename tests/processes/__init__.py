"""Several brokers of one machine, in processes of their own."""
