"""What was handed out and what was handled, hence what may be committed. Pure bookkeeping of one stream; the stream has the lock.

A partition that is owned is a `Claim` with three offsets:

    stored  <=  handled  <=  next
      |           |           the next message to hand out
      |           every message before it has been handled: this may be committed
      what the offset registry says, and which version of the znode said so

A message is *in hand* from the moment it is given out until the next one is asked for: then it has been handled. A crash in between repeats
it, never skips it. A batch of messages is handed out by a loop that touches nothing but `in_hand`; the offsets of the claims follow when
they are asked for (`settle`).

Whoever wants to count is called with each message once, when it has been handled (`on_handled`).
"""

from collections.abc import Callable, Sequence

from millstream.paper.message import ConsumedMessage


class Claim:
    """One owned partition."""

    __slots__ = ("attempted", "handled", "is_held", "next", "partition", "stored", "topic", "version")

    def __init__(self, topic: str, partition: int, *, start: int, version: int | None = None) -> None:
        self.topic = topic
        self.partition = partition
        self.next = start
        self.handled = start
        self.stored: int | None = None
        self.version = version
        """Version of the offset's znode as it was read, then as this owner last wrote it: a write by any other changes it, and fences
        this owner out. None where there is no such znode yet."""
        self.attempted: int | None = None
        """What was being stored when the connection broke: it may have been stored or not."""
        self.is_held = False
        """Whether the znode of ownership is ours, in this session."""

    def move_to(self, offset: int) -> None:
        """Go on from another offset."""
        self.next = self.handled = offset

    def __repr__(self) -> str:
        return f"Claim({self.topic}-{self.partition}, stored={self.stored}, handled={self.handled}, next={self.next})"


class Progress:
    """The claims of a stream, and the batch that it is handing out."""

    def __init__(self, on_handled: Callable[[Sequence[ConsumedMessage]], None] | None = None) -> None:
        self._on_handled = on_handled
        self.claims: dict[int, Claim] = {}
        self.in_hand: ConsumedMessage | None = None
        """Set by the loop that hands out, before each message."""
        self._held: tuple[ConsumedMessage, Claim] | None = None
        """The message that was in hand when the batch was interrupted, and where it came from."""
        self._is_held_counted = False
        self._messages: Sequence[ConsumedMessage] = ()

    @property
    def rest(self) -> Sequence[ConsumedMessage]:
        """What of the batch is not known to have been handed out; right after `ask`, exactly what has not."""
        return self._messages

    def begin(self, messages: Sequence[ConsumedMessage], *, is_first: bool) -> None:
        """A new batch; the one before is over. Among the first since the claims changed may be late news of former claims: left out."""
        assert self.in_hand is None
        assert not self._messages
        self._messages = [message for message in messages if self._is_expected(message)] if is_first else messages

    def ask(self) -> None:
        """The next message is asked for: the one in hand, and all before it, have been handled."""
        self.vouch()
        self.in_hand = self._held = None

    def vouch(self) -> None:
        """Whoever holds the message in hand says that it has been handled."""
        if self._held is not None:
            message, claim = self._held
            if claim.next == message.offset + 1:
                claim.handled = claim.next
            if self._on_handled is not None and not self._is_held_counted:
                self._is_held_counted = True
                self._on_handled([message])
        elif self.in_hand is not None and self._messages:
            self._settle(self._place(self.in_hand) + 1)
            self.in_hand = None

    def withdraw(self, message: ConsumedMessage) -> None:
        """The message was put in hand but is not handed out; whatever was handed out before it has been handled, as it was asked for."""
        if self._held is not None:
            held, claim = self._held
            if held is not message:
                self.vouch()
            elif claim.next == message.offset + 1:
                claim.next = message.offset
        elif self._messages:
            self._settle(self._place(message))
        self.in_hand = self._held = None

    def settle(self) -> None:
        """Bring the offsets of the claims up to date. The batch goes on; the message in hand is not handled."""
        # Read once: the loop may go on meanwhile, and then the message it had in hand is handled a little later.
        message = self.in_hand
        if message is not None and self._messages:
            self._settle(self._place(message))

    def interrupt(self) -> None:
        """Give up the rest of the batch: the claims are about to change, and each goes on from its `next`."""
        message = self.in_hand
        if message is not None and self._messages:
            self._settle(self._place(message))
            claim = self.claims[message.partition]
            claim.next = message.offset + 1
            self._held, self._is_held_counted = (message, claim), False
        self._messages = ()

    def is_in_hand(self, claim: Claim) -> bool:
        """Whether a message of this claim is being handled; to be asked after `interrupt`."""
        return self._held is not None and self._held[1] is claim

    def changed(self) -> list[Claim]:
        """The claims of which more, or after a rewind less, has been handled than is stored."""
        self.settle()
        return [claim for claim in self.claims.values() if claim.handled != claim.stored]

    def _place(self, message: ConsumedMessage) -> int:
        """Where in the batch a message stands; most often it is the last. By identity: comparing payloads takes its time."""
        if self._messages[-1] is message:
            return len(self._messages) - 1
        return next(place for place, one in enumerate(self._messages) if one is message)

    def _is_expected(self, message: ConsumedMessage) -> bool:
        claim = self.claims.get(message.partition)
        return claim is not None and message.offset >= claim.next

    def _settle(self, count: int) -> None:
        """The first `count` messages of the batch have been handed out and handled."""
        done = self._messages[:count]
        if done and self._on_handled is not None:
            self._on_handled(done)
        if done and len(self.claims) == 1:
            # The last one is enough.
            done = done[-1:]
        records = [message.record for message in done]
        # The last of each partition stays in the dictionary.
        last = dict(zip([record.partition() for record in records], [record.offset() for record in records], strict=True))
        for partition, offset in last.items():
            claim = self.claims[partition]
            claim.next = claim.handled = offset + 1
        self._messages = self._messages[count:]
