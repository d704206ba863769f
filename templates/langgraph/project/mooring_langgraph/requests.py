"""Reads the members of requests. Throws a 422 that names what is wrong."""

import uuid

from .errors import Refused
from .public_rule import is_restricted

KINDS = {dict: "an object", list: "a list", str: "a string", int: "a number", bool: "true or false"}
SEARCH_MAX = 1_000


class Request:
    """A request to a route, with the groups of its path."""

    def __init__(self, groups, query, body, headers):
        self.groups = groups
        self.query = query
        self.body = body
        self.headers = headers
        self.is_restricted = is_restricted(headers)

    @property
    def wish(self):
        """The body of a request that has an object."""
        if not isinstance(self.body, dict):
            raise Refused(422, "The body is no JSON object.")
        return self.body

    def get(self, name, kind, default=None):
        """Returns a member of the body that has this type; the default if it is absent or null."""
        return member(self.wish, name, kind, default)

    def limit(self):
        return self.number("limit", 10, 1, SEARCH_MAX)

    def offset(self):
        return self.number("offset", 0, 0, 1_000_000_000)

    def number(self, name, default, least, most):
        """Returns a number of the body, or else of the query."""
        value = self.body.get(name) if isinstance(self.body, dict) else self.query.get(name)
        if isinstance(value, str) and value.isdecimal():
            value = int(value)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise Refused(422, f"{name} is no number from {least} to {most}.")
        return value

    def is_asked(self, name):
        """Returns whether a flag of the query, or of the body, is set."""
        value = self.body.get(name) if isinstance(self.body, dict) and name in self.body else self.query.get(name)
        return value is True or str(value).lower() in ("true", "1", "yes")


def member(values, name, kind, default=None):
    if not isinstance(values, dict):
        raise Refused(422, f"What has {name} is no object.")
    value = values.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Refused(422, f"{name} is not {KINDS[kind]}.")
    return value


def texts(values, name):
    """Returns a list of strings, or None if it is absent."""
    value = member(values, name, list)
    if value is not None and not all(isinstance(each, str) for each in value):
        raise Refused(422, f"{name} is no list of strings.")
    return value


def uuid_of(text):
    """Returns the id in its usual form."""
    try:
        return str(uuid.UUID(text))
    except (ValueError, TypeError, AttributeError):
        raise Refused(422, f"{str(text)[:100]!r} is no UUID.") from None


def checked_run(wish):
    """Returns the request for a run. Throws a 422 if a member has another type."""
    if not isinstance(wish, dict):
        raise Refused(422, "A run is no JSON object.")
    for name in ("metadata", "config", "command", "checkpoint"):
        member(wish, name, dict)
    for name in ("assistant_id", "checkpoint_id", "multitask_strategy", "if_not_exists", "on_disconnect", "on_completion"):
        member(wish, name, str)
    config = wish.get("config") or {}
    for name in ("configurable", "metadata"):
        member(config, name, dict)
    if not wish.get("assistant_id"):
        raise Refused(422, "assistant_id is missing.")
    after = wish.get("after_seconds")
    if after is not None and (isinstance(after, bool) or not isinstance(after, (int, float)) or not 0 <= after <= 86_400 * 366):
        raise Refused(422, "after_seconds is no number from 0 to 31622400.")
    if wish.get("durability") not in (None, "sync", "async", "exit"):
        raise Refused(422, "durability is none of sync, async, exit.")
    return wish
