"""The routes of assistants, which are the graphs, and of the store."""

import contextlib
import importlib.metadata

from .answers import Answer
from .errors import Refused
from .json_form import plain
from .requests import texts


class OtherRoutes:
    def __init__(self, graphs, store):
        self.graphs = graphs
        self.store = store

    def table(self):
        assistant = r"/assistants/(?P<assistant>[^/]+)"
        return [
            ("GET", r"/ok", self.ok),
            ("GET", r"/info", self.info),
            ("POST", r"/assistants/search", self.search_assistants),
            ("POST", r"/assistants/count", self.count_assistants),
            ("GET", assistant, self.assistant),
            ("GET", rf"{assistant}/graph", self.drawing),
            ("GET", rf"{assistant}/schemas", self.schemas),
            ("GET", rf"{assistant}/subgraphs(?:/(?P<namespace>[^/]+))?", self.subgraphs),
            ("PUT", r"/store/items", self.put),
            ("GET", r"/store/items", self.get),
            ("DELETE", r"/store/items", self.delete),
            ("POST", r"/store/items/search", self.search),
            ("POST", r"/store/namespaces", self.namespaces),
        ]

    async def ok(self, _):
        return Answer({"ok": True})

    async def info(self, _):
        flags = {"assistants": True, "crons": False, "langsmith": False}
        return Answer({"version": importlib.metadata.version("langgraph"), "context": "python", "flags": flags})

    async def search_assistants(self, request):
        found = self.matching(request)
        offset, chosen = request.offset(), texts(request.wish, "select")
        page = found[offset : offset + request.limit()]
        listed = [{name: value for name, value in each.items() if chosen is None or name in chosen} for each in page]
        headers = {"x-pagination-total": str(len(found))}
        if offset + len(page) < len(found):
            headers["x-pagination-next"] = str(offset + len(page))
        return Answer(listed, headers=headers)

    async def count_assistants(self, request):
        return Answer(len(self.matching(request)))

    def matching(self, request):
        graph_id, name, metadata = request.get("graph_id", str), request.get("name", str, ""), request.get("metadata", dict, {})
        found = [self.graphs.assistant(each) for each in self.graphs.made]
        return [
            each
            for each in found
            if graph_id in (None, each["graph_id"])
            and name.lower() in each["name"].lower()
            and metadata.items() <= each["metadata"].items()
        ]

    async def assistant(self, request):
        return Answer(self.graphs.assistant(self.graphs.name_of(request.groups["assistant"])))

    def graph_in(self, request):
        return self.graphs.opened(self.graphs.name_of(request.groups["assistant"]), {"configurable": {}}, "assistants.read")

    async def drawing(self, request):
        depth = request.query.get("xray", "")
        async with self.graph_in(request) as graph:
            drawn = await graph.aget_graph(xray=int(depth) if depth.isdecimal() else request.is_asked("xray"))
            return Answer(drawn.to_json())

    async def schemas(self, request):
        async with self.graph_in(request) as graph:
            return Answer({"graph_id": self.graphs.name_of(request.groups["assistant"]), **schemas_of(graph)})

    async def subgraphs(self, request):
        namespace = request.groups.get("namespace")
        async with self.graph_in(request) as graph:
            found = graph.aget_subgraphs(namespace=namespace, recurse=request.is_asked("recurse"))
            return Answer({name: schemas_of(each) async for name, each in found})

    async def put(self, request):
        value = request.get("value", dict)
        if value is None:
            raise Refused(422, "value is missing.")
        if request.wish.get("ttl") is not None:
            raise Refused(422, "Items of this server's store have no ttl.")
        index = request.wish.get("index")
        await self.store.aput(namespace_in(request), key_of(request.wish), value, **({} if index is None else {"index": index}))
        return Answer(status=204)

    async def get(self, request):
        namespace = request.query.get("namespace", "")
        item = await self.store.aget(tuple(namespace.split(".")) if namespace else (), key_of(request.query))
        return Answer(None if item is None else plain(item.dict()))

    async def delete(self, request):
        await self.store.adelete(namespace_in(request), key_of(request.wish))
        return Answer(status=204)

    async def search(self, request):
        asked = {"query": request.get("query", str), "filter": request.get("filter", dict)}
        prefix = tuple(texts(request.wish, "namespace_prefix") or ())
        found = await self.store.asearch(prefix, **asked, limit=request.limit(), offset=request.offset())
        return Answer({"items": [plain(item.dict()) for item in found]})

    async def namespaces(self, request):
        parts = {name: value and tuple(value) for name in ("prefix", "suffix") for value in [texts(request.wish, name)]}
        depth = request.get("max_depth", int)
        limit = request.number("limit", 100, 1, 1_000)
        found = await self.store.alist_namespaces(**parts, max_depth=depth, limit=limit, offset=request.offset())
        return Answer({"namespaces": plain(found)})


def namespace_in(request):
    return tuple(texts(request.wish, "namespace") or ())


def key_of(members):
    key = members.get("key")
    if not isinstance(key, str) or key == "":
        raise Refused(422, "key is no string, or is empty.")
    return key


def schemas_of(graph):
    """Returns the JSON schemas of a graph. Those that can't be told are null."""
    schemas = {
        "input_schema": lambda: graph.get_input_jsonschema(),
        "output_schema": lambda: graph.get_output_jsonschema(),
        "state_schema": lambda: state_schema(graph),
        "config_schema": lambda: graph.get_config_jsonschema(),
        "context_schema": lambda: graph.get_context_jsonschema(),
    }
    found = dict.fromkeys(schemas)
    for name, schema in schemas.items():
        # Types of a state that are no part of JSON have no schema.
        with contextlib.suppress(Exception):
            found[name] = schema()
    return found


def state_schema(graph):
    from pydantic import TypeAdapter

    return TypeAdapter(graph.builder.state_schema).json_schema()
