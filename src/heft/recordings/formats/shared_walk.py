"""One walk through a log of messages for several streams of it that are read side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping

# Position of a channel in its log, stamps of logging [ns] and the messages themselves.
Batch = tuple[int, list[int], list[bytes]]
MOST_WAITING = 64 << 20  # [bytes] of messages that wait for their readers


class SharedWalk:
    """Hands the messages of one walk to the readers of their channels.

    What a reader does not ask for yet waits for it. Where that becomes too much, the reader for
    whom most waits gets a walk of its own, behind what it has had.

    Args:
        batches: Yields the messages of some channels, in the log's order.
        channels: Channel of each reader.
    """

    def __init__(
        self, batches: Callable[[Collection[int]], Iterator[Batch]], channels: Mapping[int, int]
    ) -> None:
        self._batches, self._channels = batches, channels
        self._walk = batches(frozenset(channels.values()))
        self._readers: dict[int, list[int]] = {}
        for reader, channel in channels.items():
            self._readers.setdefault(channel, []).append(reader)
        self._waiting: dict[int, deque[Batch]] = {reader: deque() for reader in channels}
        self._sizes = dict.fromkeys(channels, 0)  # of what waits [bytes]
        self._held = 0
        self._had = dict.fromkeys(channels, 0)  # messages

    def batches(self, reader: int) -> Iterator[Batch]:
        """Yield the messages of a reader's channel.

        Args:
            reader: Number of the reader; each reads once.
        """
        while (waiting := self._waiting.get(reader)) is not None:
            if waiting:
                batch = waiting.popleft()
                self._count(reader, -_size(batch))
                self._had[reader] += len(batch[1])
                yield batch
            elif not self._advance():
                return
        left = self._had[reader]  # to be passed over
        for channel, logged, messages in self._batches([self._channels[reader]]):
            if len(logged) > left:
                yield channel, logged[left:], messages[left:]
            left = max(left - len(logged), 0)

    def _advance(self) -> bool:
        batch = next(self._walk, None)
        if batch is None:
            return False
        for reader in self._readers.get(batch[0], ()):
            self._waiting[reader].append(batch)
            self._count(reader, _size(batch))
        while self._held > MOST_WAITING:
            longest = max(self._sizes, key=lambda reader: self._sizes[reader])
            self._count(longest, -self._sizes[longest])
            del self._waiting[longest]
            self._readers[self._channels[longest]].remove(longest)
        return True

    def _count(self, reader: int, size: int) -> None:
        self._sizes[reader] += size
        self._held += size


def _size(batch: Batch) -> int:
    return sum(map(len, batch[2]))
