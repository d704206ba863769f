"""Calls a LangGraph server by LangGraph's own client for Python, and prints what it got as JSON: client.py <url>."""

import asyncio
import json
import sys

from langgraph_sdk import get_client


def said(text):
    return {"messages": [{"role": "user", "content": text}]}


def last(values):
    return values["messages"][-1]["content"]


async def assistants(client):
    found = await client.assistants.search()
    schemas = await client.assistants.get_schemas("agent")
    drawing = await client.assistants.get_graph(found[0]["assistant_id"])
    return {
        "graphs": sorted(each["graph_id"] for each in found),
        "got": (await client.assistants.get("agent"))["assistant_id"] in [each["assistant_id"] for each in found],
        "input": sorted(schemas["input_schema"]["properties"]),
        "nodes": sorted(node["id"] for node in drawing["nodes"]),
    }


async def threads(client):
    thread = await client.threads.create(metadata={"owner": "me"})
    thread_id = thread["thread_id"]
    first = await client.runs.wait(thread_id, "agent", input=said("#one"))
    events = [part async for part in client.runs.stream(thread_id, "agent", input=said("#two"), stream_mode=["values", "messages-tuple", "updates"])]
    run = await client.runs.create(thread_id, "agent", input=said("#three"), multitask_strategy="enqueue")
    joined = await client.runs.join(thread_id, run["run_id"])
    state = await client.threads.get_state(thread_id)
    history = await client.threads.get_history(thread_id, limit=2)
    copy = await client.threads.copy(thread_id)
    updated = await client.threads.update(thread_id, metadata={"topic": "tides"})
    await client.threads.update_state(copy["thread_id"], said("#four"), as_node="__start__")
    copied = await client.threads.get_state(copy["thread_id"])
    found = await client.threads.search(metadata={"owner": "me", "topic": "tides"})
    await client.threads.delete(copy["thread_id"])
    runs = await client.runs.list(thread_id)
    return {
        "wait": last(first),
        "events": sorted({part.event for part in events}),
        "streamed": "".join(part.data[0]["content"] for part in events if part.event == "messages"),
        "values": last([part.data for part in events if part.event == "values"][-1]),
        "join": last(joined),
        "state": last(state["values"]),
        "next": state["next"],
        "history": [last(each["values"]) for each in history[:1]],
        "copied": last(copied["values"]),
        "found": [each["thread_id"] == thread_id for each in found],
        "metadata": {name: updated["metadata"][name] for name in ("owner", "topic", "graph_id")},
        "runs": [each["status"] for each in runs],
        "left": await client.threads.count(metadata={"owner": "me"}),
    }


async def stateless(client):
    values = await client.runs.wait(None, "agent", input=said("#alone"))
    batch = await client.runs.create_batch([{"assistant_id": "agent", "input": said("#a")}, {"assistant_id": "agent", "input": said("#b")}])
    return {"wait": last(values), "batch": [each["status"] for each in batch]}


async def store(client):
    await client.store.put_item(("users", "1"), "colour", {"name": "blue"})
    await client.store.put_item(("users", "2"), "colour", {"name": "red"})
    item = await client.store.get_item(("users", "1"), "colour")
    found = await client.store.search_items(("users",), filter={"name": "red"})
    namespaces = await client.store.list_namespaces(prefix=["users"])
    await client.store.delete_item(("users", "2"), "colour")
    left = await client.store.search_items(("users",))
    return {
        "item": item["value"],
        "found": [each["value"] for each in found["items"]],
        "namespaces": sorted(namespaces["namespaces"]),
        "left": [each["namespace"] for each in left["items"]],
    }


async def main(url):
    client = get_client(url=url)
    parts = {"assistants": assistants, "threads": threads, "stateless": stateless, "store": store}
    print(json.dumps({name: await part(client) for name, part in parts.items()}))


asyncio.run(main(sys.argv[1]))
