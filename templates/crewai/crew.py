"""A crew of one, which answers in a conversation."""

import os

from crewai import LLM, Agent, Crew, Process, Task
from crewai.project import CrewBase, agent, crew, task

MODEL = LLM(
    model=os.environ.get("OPENAI_MODEL") or "gpt-4o-mini",
    provider="openai",
    base_url=os.environ.get("OPENAI_BASE_URL") or None,
    api_key=os.environ.get("OPENAI_API_KEY") or "none",
)


@CrewBase
class Assistants:
    agents_config = "config/agents.yaml"
    tasks_config = "config/tasks.yaml"

    @agent
    def assistant(self) -> Agent:
        return Agent(config=self.agents_config["assistant"], llm=MODEL, verbose=False)

    @task
    def answer(self) -> Task:
        return Task(config=self.tasks_config["answer"])

    @crew
    def crew(self) -> Crew:
        return Crew(agents=self.agents, tasks=self.tasks, process=Process.sequential, verbose=False)
