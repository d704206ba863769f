"""Returns what graphs produce as JSON can hold it."""

import base64
import dataclasses
import datetime
import enum
import json
import math
import uuid

from langgraph.types import Interrupt


def plain(value):
    """Returns the value as JSON can hold it, with messages and interrupts as LangGraph's API writes them."""
    if value is None or isinstance(value, (str, bool, int)):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Interrupt):
        return {"id": getattr(value, "id", None), "value": plain(value.value)}
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return plain(value.model_dump())
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if isinstance(value, BaseException):
        return error_form(value)
    return str(value)


def error_form(error):
    """Returns an error as LangGraph's API shows it."""
    return {"error": type(error).__name__, "message": str(error)[:2_000]}


def encoded(value):
    """Returns the JSON of any value."""
    return json.dumps(plain(value), separators=(",", ":"))


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat()


def new_id():
    return str(uuid.uuid4())


def checkpoint_form(config):
    """Returns the checkpoint that a graph's configuration names; None if it names none."""
    configurable = (config or {}).get("configurable") or {}
    if not configurable.get("thread_id") or not configurable.get("checkpoint_id"):
        return None
    return {
        "thread_id": configurable["thread_id"],
        "checkpoint_id": configurable["checkpoint_id"],
        "checkpoint_ns": configurable.get("checkpoint_ns") or "",
        "checkpoint_map": plain(configurable.get("checkpoint_map")),
    }


def state_form(state):
    """Returns a state of a thread as LangGraph's API shows it."""
    checkpoint, parent = checkpoint_form(state.config), checkpoint_form(state.parent_config)
    return {
        "values": plain(state.values),
        "next": list(state.next),
        "tasks": [task_form(task) for task in state.tasks],
        "metadata": plain(state.metadata),
        "created_at": state.created_at,
        "checkpoint": checkpoint,
        "parent_checkpoint": parent,
        "checkpoint_id": checkpoint and checkpoint["checkpoint_id"],
        "parent_checkpoint_id": parent and parent["checkpoint_id"],
        "interrupts": plain(getattr(state, "interrupts", ())),
    }


EMPTY_STATE = {
    "values": {},
    "next": [],
    "tasks": [],
    "metadata": {},
    "created_at": None,
    "checkpoint": None,
    "parent_checkpoint": None,
    "checkpoint_id": None,
    "parent_checkpoint_id": None,
    "interrupts": [],
}


def task_form(task):
    below = task.state
    is_state = hasattr(below, "values") and hasattr(below, "next")
    return {
        "id": task.id,
        "name": task.name,
        "path": plain(task.path),
        "error": None if task.error is None else str(task.error)[:2_000],
        "interrupts": plain(task.interrupts),
        "checkpoint": below.get("configurable") if isinstance(below, dict) else None,
        "state": state_form(below) if is_state else None,
        "result": plain(getattr(task, "result", None)),
    }


def questions_of(state):
    """Returns the questions at which the tasks of a state were interrupted, by task."""
    return {task.id: plain(task.interrupts) for task in state.tasks if task.interrupts}
