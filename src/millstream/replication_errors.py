"""Errors that only brokers see, when they speak to each other."""

from millstream.errors import KafkaError


class StaleBrokerEpoch(KafkaError):
    """The request comes from a former life of the broker, or from none that is registered."""

    code = 77


class InvalidUpdateVersion(KafkaError):
    """The state of the partition was changed meanwhile."""

    code = 95


class PrincipalDeserializationFailure(KafkaError):
    """An envelope does not say who sends it, and for whom."""

    code = 97


class BrokerIdNotRegistered(KafkaError):
    """No broker of that number is registered."""

    code = 102


class IneligibleReplica(KafkaError):
    """The replica may not join the in-sync set."""

    code = 107


class NewLeaderElected(KafkaError):
    """The change that was asked for made another replica the leader."""

    code = 108
