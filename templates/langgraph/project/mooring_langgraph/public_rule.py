"""Decides what a request may do that came by the agent's public address, at which anybody may call.

Such a caller may use a thread or a run whose id it knows, or that it made itself, since these ids can't be guessed. It lists no threads of
others, and has no access to the store, which everybody shares. LANGGRAPH_PUBLIC_API=all lets it use all routes.
"""

import os
import uuid

from .errors import Refused

# Mooring sets this header for each caller of the public address, and passes on none that a caller sent. Its own requests have none.
PUBLIC_HEADER = "forwarded"
# Routes that name a graph, a thread or a run are open.
NAMES = {"assistant", "run", "thread"}
OPEN = {("GET", "/ok"), ("GET", "/info"), ("POST", "/assistants/search"), ("POST", "/assistants/count")}
OPEN |= {("POST", path) for path in ("/threads", "/threads/search", "/runs", "/runs/stream", "/runs/wait", "/runs/batch")}
# Mooring derives the ids of its conversations' threads from names, some of which others know.
DERIVED = 5


def is_restricted(headers):
    return PUBLIC_HEADER in headers and os.environ.get("LANGGRAPH_PUBLIC_API") != "all"


def check_public(method, path, request):
    """Throws a 403 if the request may not do this."""
    if not request.is_restricted:
        return
    if (method, path) not in OPEN and not NAMES & request.groups.keys():
        raise Refused(403, f"{method} {path[:200]} is not open to the public. The owner of the agent can set LANGGRAPH_PUBLIC_API to all.")
    body = request.body if isinstance(request.body, dict) else {}
    ids = body.get("ids")
    if any(is_derived(each) for each in (request.groups.get("thread"), body.get("thread_id"), *(ids if isinstance(ids, list) else ()))):
        raise Refused(403, "The thread's id is a UUID of version 5. Such threads, as those of Mooring's conversations, are not open to the public.")


def is_derived(text):
    try:
        return uuid.UUID(text).version == DERIVED
    except (ValueError, TypeError, AttributeError):
        return False
