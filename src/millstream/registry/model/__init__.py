"""What a registry knows and decides, without waiting: the state that the records of `_schemas` add up to, and the rules for changing it."""
