"""The answers of routes, which the server sends."""


class Answer:
    """A JSON value; no body if the status is 202 or 204."""

    def __init__(self, value=None, status=200, headers=None):
        self.value = value
        self.status = status
        self.headers = headers or {}


class Events:
    """The events of a run. `on_disconnect` is called if the reader goes away, unless it is None."""

    def __init__(self, follower, headers, on_disconnect):
        self.follower = follower
        self.headers = headers
        self.on_disconnect = on_disconnect


class Later:
    """A JSON value that a coroutine will have, until which empty lines keep the connection."""

    def __init__(self, coroutine, headers, on_disconnect):
        self.coroutine = coroutine
        self.headers = headers
        self.on_disconnect = on_disconnect
