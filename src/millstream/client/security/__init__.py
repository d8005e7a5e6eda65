"""How a client protects its connections: TLS, SASL, and the options that describe them."""
