"""The events of runs in progress, for those who follow them."""

import asyncio
import collections
import queue

from .json_form import encoded

# A follower who reads slowly loses pieces of messages beyond the first number, and is sent away beyond the second one.
PREVIEWS_WAITING_MAX = 1_000
EVENTS_WAITING_MAX = 10_000
# The latest events of a resumable run that its followers can get again.
EVENTS_KEPT = 1_000

END = None


class Feed:
    """The events of one run, which the event loop publishes."""

    def __init__(self, is_resumable):
        self.is_resumable = is_resumable
        self.kept = collections.deque(maxlen=EVENTS_KEPT)
        self.followers = set()
        self.number = 0
        self.outcome = asyncio.get_running_loop().create_future()

    def publish(self, event, data):
        self.number += 1
        piece = (self.number if self.is_resumable else None, event, encoded(data))
        if self.is_resumable:
            self.kept.append(piece)
        for follower in list(self.followers):
            if not follower.add(piece):
                self.followers.discard(follower)

    def follow(self, after=None):
        """Returns a follower, with the events after that number if they are kept."""
        follower = Follower()
        if after is not None:
            for piece in self.kept:
                if piece[0] > after:
                    follower.add(piece)
        self.followers.add(follower)
        return follower

    def end(self, outcome):
        """Ends the events. The outcome is what the run's thread holds now, or its error."""
        self.outcome.set_result(outcome)
        for follower in self.followers:
            follower.pieces.put(END)
        self.followers.clear()


class Follower:
    """The events that wait for one reader, who is in another thread."""

    def __init__(self):
        self.pieces = queue.SimpleQueue()

    def add(self, piece):
        """Returns false if the reader is too slow, whose events end then."""
        waiting = self.pieces.qsize()
        if waiting >= EVENTS_WAITING_MAX:
            self.pieces.put((None, "error", encoded({"error": "TooSlow", "message": "The events were not read in time."})))
            self.pieces.put(END)
            return False
        if waiting < PREVIEWS_WAITING_MAX or not piece[1].startswith("messages"):
            self.pieces.put(piece)
        return True


def ended_feed():
    """Returns a follower of a run that is over."""
    follower = Follower()
    follower.pieces.put(END)
    return follower
