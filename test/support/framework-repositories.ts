import type { GitEntry } from './git-server.ts';

/**
 * Repositories as their owners have them: each has the layout that the framework's own tool generates. Their versions are ranges, so the
 * current versions of the registries are installed.
 */

type Repository = Record<string, GitEntry>;

const langgraphNode: Repository = {
  'langgraph.json': JSON.stringify({ node_version: '20', graphs: { agent: './src/agent/graph.ts:graph' }, env: '.env' }),
  'package.json': JSON.stringify({
    name: 'example-graph',
    version: '0.0.1',
    private: true,
    type: 'module',
    scripts: { test: 'node --test' },
    dependencies: { '@langchain/core': '^1.0.0', '@langchain/langgraph': '^1.0.0', '@langchain/openai': '^1.0.0' },
    devDependencies: { typescript: '^5.9.0' },
  }),
  'tsconfig.json': JSON.stringify({ compilerOptions: { target: 'ES2022', module: 'NodeNext', strict: true }, include: ['src'] }),
  'src/agent/state.ts': `import { MessagesAnnotation } from '@langchain/langgraph';

export const State = MessagesAnnotation;
`,
  'src/agent/graph.ts': `import type { RunnableConfig } from '@langchain/core/runnables';
import { StateGraph } from '@langchain/langgraph';
import { ChatOpenAI } from '@langchain/openai';
import { State } from './state.js';

async function answer(state: typeof State.State, config: RunnableConfig): Promise<typeof State.Update> {
  const model = new ChatOpenAI({ model: 'gpt-4o-mini', configuration: { baseURL: process.env.OPENAI_BASE_URL } });
  return { messages: [await model.invoke(state.messages, config)] };
}

export const graph = new StateGraph(State).addNode('answer', answer).addEdge('__start__', 'answer').addEdge('answer', '__end__').compile();
`,
};

const langgraphPython: Repository = {
  'langgraph.json': JSON.stringify({ dependencies: ['.'], graphs: { agent: './src/agent/graph.py:graph' }, env: '.env' }),
  'pyproject.toml': `[project]
name = "agent"
version = "0.0.1"
requires-python = ">=3.10"
dependencies = ["langgraph>=1.0.0", "langchain-openai>=1.0.0", "python-dotenv>=1.0.1"]

[project.optional-dependencies]
dev = ["ruff>=0.6.1"]

[build-system]
requires = ["setuptools>=73.0.0", "wheel"]
build-backend = "setuptools.build_meta"

[tool.setuptools]
packages = ["agent"]

[tool.setuptools.package-dir]
agent = "src/agent"
`,
  'src/agent/__init__.py': 'from agent.graph import graph\n\n__all__ = ["graph"]\n',
  'src/agent/graph.py': `from langchain_openai import ChatOpenAI
from langgraph.graph import MessagesState, StateGraph


async def answer(state: MessagesState):
    return {"messages": [await ChatOpenAI(model="gpt-4o-mini").ainvoke(state["messages"])]}


graph = StateGraph(MessagesState).add_node(answer).add_edge("__start__", "answer").compile(name="Example")
`,
};

const crew: Repository = {
  'pyproject.toml': `[project]
name = "latest_news"
version = "0.1.0"
description = "latest-news using crewAI"
authors = [{ name = "Your Name", email = "you@example.com" }]
requires-python = ">=3.10,<3.14"
dependencies = ["crewai[tools]>=1.15,<2"]

[project.scripts]
latest_news = "latest_news.main:run"
run_crew = "latest_news.main:run"

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.crewai]
type = "crew"
`,
  'knowledge/user_preference.txt': 'The user likes short answers.\n',
  'src/latest_news/__init__.py': '',
  'src/latest_news/main.py': `from latest_news.crew import LatestNews


def run():
    LatestNews().crew().kickoff(inputs={"topic": "AI", "history": "", "current_year": "2026"})
`,
  'src/latest_news/crew.py': `from crewai import Agent, Crew, Process, Task
from crewai.project import CrewBase, agent, crew, task


@CrewBase
class LatestNews():
    @agent
    def researcher(self) -> Agent:
        return Agent(config=self.agents_config["researcher"], verbose=True)

    @agent
    def reporting_analyst(self) -> Agent:
        return Agent(config=self.agents_config["reporting_analyst"], verbose=True)

    @task
    def research_task(self) -> Task:
        return Task(config=self.tasks_config["research_task"])

    @task
    def reporting_task(self) -> Task:
        return Task(config=self.tasks_config["reporting_task"], output_file="report.md")

    @crew
    def crew(self) -> Crew:
        return Crew(agents=self.agents, tasks=self.tasks, process=Process.sequential, verbose=True)
`,
  'src/latest_news/config/agents.yaml': `researcher:
  role: Senior researcher
  goal: Find out what is new about the topic
  backstory: You find what matters, and say it briefly.

reporting_analyst:
  role: Reporting analyst
  goal: Write reports
  backstory: You turn findings into reports.
`,
  'src/latest_news/config/tasks.yaml': `research_task:
  description: >
    The conversation so far is {history}. Find out what is new in {current_year} about {topic}.
  expected_output: A list of findings
  agent: researcher

reporting_task:
  description: Write a report about the findings.
  expected_output: A report
  agent: reporting_analyst
`,
  'src/latest_news/tools/__init__.py': '',
  'src/latest_news/tools/custom_tool.py': `from crewai.tools import BaseTool


class MyCustomTool(BaseTool):
    name: str = "My tool"
    description: str = "Says what it is given."

    def _run(self, argument: str) -> str:
        return argument
`,
};

const jsonCrew: Repository = {
  'pyproject.toml': `[project]
name = "tides"
version = "0.1.0"
description = "tides using crewAI"
authors = [{ name = "Your Name", email = "you@example.com" }]
requires-python = ">=3.10,<3.14"
dependencies = ["crewai[tools]>=1.15,<2"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
only-include = ["agents", "crew.jsonc"]

[tool.crewai]
type = "crew"
definition = "crew.jsonc"
`,
  'crew.jsonc': `{
  "name": "tides",
  // Each has a file agents/<name>.jsonc
  "agents": ["researcher"],
  "tasks": [
    {
      "name": "research_task",
      "description": "The conversation so far is {history}. Answer {message} in {language}.",
      "expected_output": "A short answer.",
      "agent": "researcher"
    }
  ],
  "process": "sequential",
  "verbose": true,
  "memory": false,
  "inputs": { "language": "English" }
}
`,
  'agents/researcher.jsonc': `{
  "role": "Senior Researcher",
  "goal": "Find out what is asked for",
  "backstory": "You find what matters, and say it briefly.",
  "llm": "openai/gpt-4o",
  "tools": [],
  "settings": { "verbose": false, "allow_delegation": false }
}
`,
};

const openclaw: Repository = {
  // OpenClaw's own documentation writes its settings as JSON5.
  'openclaw.json': '{\n  // The agent needs no introduction.\n  agents: { defaults: { skipBootstrap: true, } },\n}\n',
  'package.json': JSON.stringify({ name: 'claw', version: '1.0.0', private: true, dependencies: { openclaw: '^2026.9.6' } }),
};

const openclawSettings: Repository = { 'openclaw.json': openclaw['openclaw.json'] as string };

export const frameworkRepositories: Record<string, Repository> = {
  'langgraph-node': langgraphNode,
  'langgraph-python': langgraphPython,
  crewai: crew,
  'crewai-json': jsonCrew,
  openclaw,
  'openclaw-settings': openclawSettings,
};
