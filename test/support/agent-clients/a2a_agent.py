"""An A2A server, as the SDK's own documentation writes it. It asks "which one?" if the message is "ask", and counts to three for "count"."""

import os

import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette

host, port = os.environ.get("HOST", "0.0.0.0"), int(os.environ["PORT"])
url = os.environ.get("MOORING_PUBLIC_URL", f"http://{host}:{port}/")


class Executor(AgentExecutor):
    async def execute(self, context, event_queue):
        text = context.get_user_input()
        if context.current_task is None and text not in ("ask", "count"):
            return await event_queue.enqueue_event(new_text_message(f"you said {text}", context_id=context.context_id))
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        task = TaskUpdater(event_queue, context.task_id, context.context_id)
        if text == "ask":
            return await task.requires_input(new_text_message("which one?"))
        pieces = ["one ", "two ", "three"] if text == "count" else [f"you chose {text}"]
        for index, piece in enumerate(pieces):
            last = index == len(pieces) - 1
            await task.add_artifact([new_text_part(piece)], artifact_id="reply", append=index > 0, last_chunk=last)
        return await task.complete()

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


card = AgentCard(
    name="Chooser",
    description="Asks which one.",
    version="1.0.0",
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    capabilities=AgentCapabilities(streaming=True),
    supported_interfaces=[AgentInterface(protocol_binding="JSONRPC", protocol_version="1.0", url=url)],
    skills=[AgentSkill(id="choose", name="Choose", description="Asks which one.", tags=["choose"])],
)
handler = DefaultRequestHandler(agent_executor=Executor(), task_store=InMemoryTaskStore(), agent_card=card)
app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])

if __name__ == "__main__":
    uvicorn.run(app, host=host, port=port)
