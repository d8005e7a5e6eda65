"""Every message of the first week, provoked as a person would: a wrong port, a broker that is down, a name that cannot be resolved."""
