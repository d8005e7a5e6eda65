"""This broker's part in the cluster: registration, topics and options."""
