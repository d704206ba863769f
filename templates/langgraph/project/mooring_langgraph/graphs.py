"""The graphs of the project, which are values of its modules or are made for each use."""

import contextlib
import dataclasses
import inspect
import typing
import uuid

from .errors import Refused

# LangGraph's own servers derive the ids of their assistants from the names of the graphs in this namespace.
ASSISTANT_NAMESPACE = uuid.UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")


@dataclasses.dataclass(frozen=True)
class Runtime:
    """Tells a function that makes a graph what the graph is for. It has the members of `langgraph_sdk.runtime.ServerRuntime`."""

    access_context: str
    store: object
    context: object = None
    user: object = None

    @property
    def execution_runtime(self):
        return self if self.access_context == "threads.create_run" else None

    def ensure_user(self):
        raise PermissionError("no user is known: this server has no authentication of its own")


class Graphs:
    """Graphs by the name that langgraph.json gives them. Messages are for "agent"; in a project without one, for its first graph."""

    def __init__(self, made_by_name, saver, store, started_at):
        self.saver = saver
        self.store = store
        self.started_at = started_at
        self.made = {name: self.compiled(made) for name, made in made_by_name.items()}
        self.made.setdefault("agent", next(iter(self.made.values())))
        self.names_by_id = {assistant_id(name): name for name in self.made}

    def name_of(self, assistant):
        """Returns the name of the graph that an assistant's id, or the name itself, names."""
        name = assistant if assistant in self.made else self.names_by_id.get(assistant)
        if name is None:
            raise Refused(404, f"No assistant found for {str(assistant)[:100]!r}: langgraph.json names no such graph.")
        return name

    def assistant(self, name):
        return {
            "assistant_id": assistant_id(name),
            "graph_id": name,
            "name": name,
            "description": None,
            "config": {},
            "context": {},
            "metadata": {"created_by": "system"},
            "version": 1,
            "created_at": self.started_at,
            "updated_at": self.started_at,
        }

    @contextlib.asynccontextmanager
    async def opened(self, name, config, access, context=None):
        """Yields the graph. If a context manager makes it, that is entered before and left afterwards, in the same task."""
        made = self.made[name]
        async with contextlib.AsyncExitStack() as stack:
            if not is_graph(made):
                made = made(*self.arguments_of(made, config, access, context))
                if inspect.isawaitable(made):
                    made = await made
                if hasattr(made, "__aenter__"):
                    made = await stack.enter_async_context(made)
                elif hasattr(made, "__enter__"):
                    made = stack.enter_context(made)
            yield self.compiled(made)

    def compiled(self, made):
        """Returns a graph with the state that is kept on the volume. What makes graphs is returned as it is."""
        if hasattr(made, "astream"):
            made.checkpointer = self.saver
            if getattr(made, "store", None) is None:
                made.store = self.store
            return made
        return made.compile(checkpointer=self.saver, store=self.store) if hasattr(made, "compile") else made

    def arguments_of(self, function, config, access, context):
        """Returns what the function asks for: the configuration of the run, the runtime, both, or neither."""
        try:
            hints = typing.get_type_hints(function)
        except Exception:
            hints = {}
        arguments = []
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                continue
            hint = hints.get(parameter.name, parameter.annotation)
            if is_runtime(parameter.name, hint):
                arguments.append(Runtime(access, self.store, in_class(context, hint) if access == "threads.create_run" else None))
            elif parameter.default is parameter.empty or parameter.name == "config":
                arguments.append(config)
            else:
                break
        return arguments


def assistant_id(name):
    return str(uuid.uuid5(ASSISTANT_NAMESPACE, name))


def is_graph(made):
    return hasattr(made, "astream") or hasattr(made, "compile")


def is_runtime(name, hint):
    return "Runtime" in str(hint) or (hint is inspect.Parameter.empty and name == "runtime")


def in_class(context, hint):
    """Returns the context as the class that a hint such as ServerRuntime[Context] names."""
    wanted = next((each for each in typing.get_args(hint) if isinstance(each, type)), None)
    if wanted is None or not isinstance(context, dict):
        return context
    if dataclasses.is_dataclass(wanted) or hasattr(wanted, "model_validate"):
        return wanted(**context)
    return context
