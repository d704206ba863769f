"""Calls an A2A agent by the client of a2a-sdk, and prints what it got as JSON: a2a_client.py <the agent's public address>."""

import asyncio
import json
import sys

import httpx
from a2a.client import A2ACardResolver, ClientConfig, create_client
from a2a.helpers import get_stream_response_text, new_text_message
from a2a.types import Role, SendMessageRequest, TaskState


async def answer(client, text, context=None, task=None):
    """Returns the texts in the order in which they arrived, the last state, and the ids of the task."""
    said = new_text_message(text, context_id=context, task_id=task, role=Role.ROLE_USER)
    texts, state, ids = [], None, (None, None)
    async for part in client.send_message(SendMessageRequest(message=said)):
        texts.append(get_stream_response_text(part))
        if part.HasField("task"):
            ids = (part.task.context_id, part.task.id)
        if part.HasField("status_update"):
            state = TaskState.Name(part.status_update.status.state)
    return [text for text in texts if text], state, ids


async def main(url):
    async with httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, url).get_agent_card()
    found = {"addresses": [each.url for each in card.supported_interfaces]}
    async with await create_client(url) as client:
        found["plain"], _, _ = await answer(client, "hello")
        found["counted"], found["state"], _ = await answer(client, "count")
        found["question"], found["asking"], ids = await answer(client, "ask")
        found["chosen"], found["answered"], _ = await answer(client, "the blue one", *ids)
    async with await create_client(url, ClientConfig(streaming=False)) as client:
        found["unstreamed"], _, _ = await answer(client, "hello")
    print(json.dumps(found))


asyncio.run(main(sys.argv[1]))
