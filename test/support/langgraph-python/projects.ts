/** Projects of LangGraph in Python as people bring them. Their graphs need no model: they reply with what they remember. */

type Project = Record<string, string>;

const requirements = 'langgraph>=1.0.0\nlangchain-core>=1.0.0\n';

const settings = (path: string, more: object = {}) => JSON.stringify({ dependencies: ['.'], graphs: { agent: path }, ...more });

const answer = `from langchain_core.messages import AIMessage


def answer(state):
    said = [str(each.content) for each in state["messages"] if each.type == "human"]
    return {"messages": [AIMessage(content="I remember " + " ".join(said))]}
`;

/** Makes a graph of the node \`answer\`, which an import before has named. */
const built = `
builder = StateGraph(MessagesState)
builder.add_node("answer", answer)
builder.add_edge(START, "answer")
builder.add_edge("answer", END)
`;
const imports = 'from langgraph.graph import END, START, MessagesState, StateGraph\n';
const compiled = (nodes: string) => `${imports}from ${nodes} import answer\n${built}graph = builder.compile()\n`;
const whole = `${imports}${answer}${built}graph = builder.compile()\n`;

/** A factory that notes on the volume when it is entered and left. */
const noting = `import asyncio, contextlib, os
${imports}${answer}${built}

def note(word):
    with open(os.path.join(os.environ["MOORING_VOLUME"], "notes"), "a") as file:
        file.write(word + " ")


async def slow(state):
    if state["messages"][-1].content == "fail":
        raise ValueError("it can not be done")
    if state["messages"][-1].content == "exit":
        raise SystemExit(3)
    if state["messages"][-1].content == "wait":
        note("waiting")
        await asyncio.sleep(3600)
    return answer(state)


builder = StateGraph(MessagesState)
builder.add_node("slow", slow)
builder.add_edge(START, "slow")
`;

/** Projects in which imports and names differ. Each replies "I remember …". */
export const importProjects: Record<string, Project> = {
  'a folder with requirements.txt, which is a package': {
    'langgraph.json': JSON.stringify({ dependencies: ['./my_agent'], graphs: { agent: './my_agent/agent.py:graph' }, env: '.env' }),
    'my_agent/__init__.py': '',
    'my_agent/agent.py': compiled('my_agent.utils.nodes'),
    'my_agent/utils/__init__.py': '',
    'my_agent/utils/nodes.py': answer,
  },
  'a folder of plain code, which is no package': {
    'langgraph.json': JSON.stringify({ dependencies: ['./code'], graphs: { agent: './code/main_graph.py:graph' } }),
    'code/main_graph.py': compiled('nodes'),
    'code/nodes.py': answer,
  },
  'a graph named as its package': {
    'langgraph.json': settings('./agent/agent.py:graph'),
    'agent/__init__.py': '',
    'agent/agent.py': compiled('agent.nodes'),
    'agent/nodes.py': answer,
  },
  'a graph named as its folder, which is no package': {
    'langgraph.json': settings('./agent/agent.py:graph'),
    'agent/agent.py': compiled('agent.nodes'),
    'agent/nodes.py': answer,
  },
  'relative imports in a package': {
    'langgraph.json': settings('./bot/graph.py:graph'),
    'bot/__init__.py': 'from bot.graph import graph\n',
    'bot/graph.py': compiled('.nodes'),
    'bot/nodes.py': answer,
  },
  'neighbours by their bare names': {
    'langgraph.json': settings('./bot/graph.py:graph'),
    'bot/graph.py': compiled('nodes'),
    'bot/nodes.py': answer,
  },
  'a graph in a module': {
    'langgraph.json': settings('bot.graph:graph'),
    'bot/__init__.py': '',
    'bot/graph.py': compiled('.nodes'),
    'bot/nodes.py': answer,
  },
  'types.py': { 'langgraph.json': settings('./types.py:graph'), 'types.py': whole },
  'email.py': { 'langgraph.json': settings('./email.py:graph'), 'email.py': `import email.message\n${whole}` },
  'httpx.py, named as a package that others import': {
    'langgraph.json': settings('./httpx.py:graph'),
    'httpx.py': `from langgraph_sdk import get_client\n${whole}`,
  },
  'a context class with defaults': {
    'langgraph.json': settings('./graph.py:graph'),
    'graph.py': `from dataclasses import dataclass
from langgraph.runtime import Runtime
${imports}${answer}

@dataclass(kw_only=True)
class Context:
    prefix: str = "I remember"


def greet(state, runtime: Runtime[Context]):
    assert runtime.context.prefix == "I remember"
    return answer(state)


builder = StateGraph(MessagesState, context_schema=Context)
builder.add_node("answer", greet)
builder.add_edge(START, "answer")
graph = builder.compile()
`,
  },
  'a builder that is not compiled': { 'langgraph.json': settings('./graph.py:builder'), 'graph.py': whole },
};

/** Projects whose graphs are made by functions. Each replies "I remember …". */
export const factoryProjects: Record<string, Project> = {
  'a function': { 'langgraph.json': settings('./graph.py:make'), 'graph.py': `${whole}\n\ndef make():\n    return graph\n` },
  'a function of the configuration': {
    'langgraph.json': settings('./graph.py:make'),
    'graph.py': `${whole}\n\ndef make(config, flavour="plain"):\n    assert config["configurable"]["thread_id"] and flavour == "plain"\n    return builder\n`,
  },
  'an asynchronous function': {
    'langgraph.json': settings('./graph.py:make'),
    'graph.py': `from langchain_core.runnables import RunnableConfig\n${whole}\n\nasync def make(given: RunnableConfig):\n    assert "configurable" in given\n    return graph\n`,
  },
  'a function of the runtime': {
    'langgraph.json': settings('./graph.py:make'),
    'graph.py': `from __future__ import annotations
from dataclasses import dataclass
from langchain_core.runnables import RunnableConfig
from langgraph_sdk.runtime import ServerRuntime
${whole}

@dataclass
class Context:
    tone: str = "kind"


async def make(config: RunnableConfig, server: ServerRuntime[Context]):
    running = server.execution_runtime
    assert (running is not None) == (server.access_context == "threads.create_run")
    assert server.user is None and server.store is not None and config is not None
    return graph
`,
  },
  'a context manager': {
    'langgraph.json': settings('./graph.py:make'),
    'graph.py': `from contextlib import contextmanager\n${whole}\n\n@contextmanager\ndef make(config):\n    yield graph\n`,
  },
  'an asynchronous context manager': {
    'langgraph.json': settings('./bot/graph.py:make_graph'),
    'bot/__init__.py': '',
    'bot/nodes.py': answer,
    'bot/graph.py': `from contextlib import asynccontextmanager
${imports}from bot.nodes import answer


@asynccontextmanager
async def make_graph():
    workflow = StateGraph(MessagesState)
    workflow.add_node("answer", answer)
    workflow.add_edge(START, "answer")
    workflow.add_edge("answer", END)
    yield workflow.compile()
`,
  },
};

/** A graph that a context manager makes, which notes on the volume that it is entered, left, and what ended it. */
export const notingProject: Project = {
  'langgraph.json': settings('./graph.py:make'),
  'graph.py': `${noting}

@contextlib.asynccontextmanager
async def make(runtime):
    if runtime.execution_runtime is None:
        yield builder
        return
    note("entered")
    try:
        yield builder.compile()
        note("done")
    except BaseException as error:
        note(type(error).__name__)
        raise
    finally:
        note("left")
`,
};

/** A graph whose steps wait for files on the volume, and which asks a question. */
export const steppedProject: Project = {
  'langgraph.json': settings('./graph.py:graph', { graphs: { agent: './graph.py:graph', asking: './graph.py:asking' } }),
  'graph.py': `import asyncio, os
from langgraph.types import interrupt
${imports}${answer}

def path(name):
    return os.path.join(os.environ["MOORING_VOLUME"], name)


async def count(state):
    with open(path("steps"), "a") as file:
        file.write("count ")


async def wait(state):
    with open(path("steps"), "a") as file:
        file.write("wait ")
    while not os.path.exists(path("go")):
        await asyncio.sleep(0.02)


builder = StateGraph(MessagesState)
for name, step in {"count": count, "wait": wait, "answer": answer}.items():
    builder.add_node(name, step)
for one, other in zip((START, "count", "wait", "answer"), ("count", "wait", "answer", END)):
    builder.add_edge(one, other)
graph = builder.compile()


def ask(state):
    return {"messages": [{"role": "assistant", "content": "you said " + interrupt("which one?")}]}


questions = StateGraph(MessagesState)
questions.add_node("ask", ask)
questions.add_edge(START, "ask")
asking = questions.compile()
`,
};

/** Repositories for deployments, whose packages are listed in their own ways. */
export const pythonGraphRepositories: Record<string, Project> = {
  'requirements in the agent’s folder': {
    'langgraph.json': JSON.stringify({ dependencies: ['./my_agent'], graphs: { agent: './my_agent/agent.py:graph' }, env: '.env' }),
    'my_agent/requirements.txt': `${requirements}idna==3.10\n`,
    'my_agent/__init__.py': '',
    'my_agent/agent.py': `import idna\n${compiled('my_agent.utils.nodes')}assert idna.__version__ == "3.10"\n`,
    'my_agent/utils/__init__.py': '',
    'my_agent/utils/nodes.py': answer,
  },
  'a state without messages': {
    'langgraph.json': JSON.stringify({
      dependencies: ['.'],
      graphs: { agent: './src/agent/graph.py:graph' },
      env: '.env',
      image_distro: 'wolfi',
    }),
    'pyproject.toml': `[project]
name = "agent"
version = "0.0.1"
requires-python = ">=3.10"
dependencies = ["langgraph>=1.0.0", "python-dotenv>=1.0.1"]

[build-system]
requires = ["setuptools>=73.0.0", "wheel"]
build-backend = "setuptools.build_meta"

[tool.setuptools]
packages = ["langgraph.templates.agent", "agent"]
[tool.setuptools.package-dir]
"langgraph.templates.agent" = "src/agent"
"agent" = "src/agent"
`,
    'src/agent/__init__.py': 'from agent.graph import graph\n\n__all__ = ["graph"]\n',
    'src/agent/graph.py': `from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict

from langgraph.graph import StateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict


class Context(TypedDict):
    tone: str


@dataclass
class State:
    changeme: str = "example"


async def call_model(state: State, runtime: Runtime[Context]) -> Dict[str, Any]:
    return {"changeme": f"Tone: {(runtime.context or {}).get('tone')}"}


graph = StateGraph(State, context_schema=Context).add_node(call_model).add_edge("__start__", "call_model").compile(name="New Graph")
`,
  },
};
