"""Runs a graph and returns its events by the names of LangGraph's API."""

import contextlib
from dataclasses import is_dataclass

from langchain_core.messages import BaseMessage, BaseMessageChunk
from langgraph.types import Command, Send

from .errors import Refused
from .json_form import checkpoint_form, plain

GRAPH_MODES = ("values", "updates", "custom", "tasks", "checkpoints", "debug")
MODES = (*GRAPH_MODES, "messages", "messages-tuple", "events")


def modes_of(asked):
    """Returns the stream modes of a request as a list. Throws a 422 if one of them is unknown."""
    modes = [asked] if isinstance(asked, str) else list(asked or ["values"])
    unknown = [str(mode)[:50] for mode in modes if mode not in MODES]
    if unknown:
        raise Refused(422, f"stream_mode has {', '.join(unknown)}, which is none of {', '.join(MODES)}.")
    return modes


def input_of(wish):
    """Returns what a run gives its graph: its input, or its command."""
    command = wish.get("command")
    if not command:
        return wish.get("input")
    goto = command.get("goto")
    steps = [] if goto is None else goto if isinstance(goto, list) else [goto]
    steps = [Send(step["node"], step.get("input")) if isinstance(step, dict) else step for step in steps]
    members = {"update": command["update"]} if command.get("update") is not None else {}
    if "resume" in command:
        members["resume"] = command["resume"]
    return Command(goto=steps, **members)


def context_of(graph, wish):
    """Returns the context of the run. Where none is given, a class of the graph makes one of its defaults if it can; else it is None."""
    given, schema = wish.get("context"), getattr(graph, "context_schema", None)
    if given is not None or not (is_dataclass(schema) or hasattr(schema, "model_fields")):
        return given
    with contextlib.suppress(Exception):
        return schema()
    return None


async def events_of(graph, given, config, wish):
    """Yields the names and the data of the events that the run asked for."""
    modes, subgraphs = wish["stream_mode"], bool(wish.get("stream_subgraphs"))
    graph_modes = [mode for mode in modes if mode in GRAPH_MODES]
    if "messages" in modes or "messages-tuple" in modes:
        graph_modes.append("messages")
    options = {"stream_mode": graph_modes or ["values"], "subgraphs": subgraphs}
    # A step is on the disk before the next one begins, so that none is repeated after a kill that was over.
    options["durability"] = wish.get("durability") or "sync"
    for name in ("interrupt_before", "interrupt_after"):
        if wish.get(name) is not None:
            options[name] = wish[name]
    context = context_of(graph, wish)
    if context is not None:
        options["context"] = context
    previews = Previews()
    async for part in parts_of(graph, given, config, options, "events" in modes):
        if isinstance(part, dict):
            yield "events", part
            continue
        namespace, mode, data = part if subgraphs else ((), *part)
        suffix = "".join(f"|{each}" for each in namespace)
        if mode == "messages":
            if "messages-tuple" in modes:
                yield f"messages{suffix}", data
            if "messages" in modes:
                for event, preview in previews.of(*data):
                    yield f"{event}{suffix}", preview
        elif mode in modes:
            yield f"{mode}{suffix}", with_checkpoints(mode, data)


async def parts_of(graph, given, config, options, with_events):
    """Yields the parts that the graph streams; with the events of everything in it, as dictionaries, if they are asked for."""
    if not with_events:
        async for part in graph.astream(given, config, **options):
            yield part
        return
    async for event in graph.astream_events(given, config, version="v2", **options):
        chunk = event["data"].get("chunk")
        if event["event"] == "on_chain_stream" and event["run_id"] == str(config["run_id"]) and isinstance(chunk, tuple):
            yield chunk
        yield event


def with_checkpoints(mode, data):
    """Returns the data of an event, in which checkpoints have the form of LangGraph's API in the place of configurations."""
    payload = data.get("payload") if mode == "debug" else data if mode == "checkpoints" else None
    if not isinstance(payload, dict) or "config" not in payload:
        return data
    formed = {name: value for name, value in payload.items() if name not in ("config", "parent_config")}
    formed["checkpoint"] = checkpoint_form(payload["config"])
    formed["parent_checkpoint"] = checkpoint_form(payload.get("parent_config"))
    return {**data, "payload": formed} if mode == "debug" else formed


class Previews:
    """Messages that grow with each of their pieces, which is the mode "messages"."""

    def __init__(self):
        self.messages = {}

    def of(self, message, metadata):
        if not isinstance(message, BaseMessage):
            return
        before = self.messages.get(message.id)
        if before is None:
            yield "messages/metadata", {message.id: {"metadata": plain(metadata)}}
        if not isinstance(message, BaseMessageChunk):
            yield "messages/complete", [message]
            return
        self.messages[message.id] = message if before is None else before + message
        yield "messages/partial", [self.messages[message.id]]
