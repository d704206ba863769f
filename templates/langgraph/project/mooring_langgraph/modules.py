"""Imports the programs that langgraph.json names, under names that hide no other module."""

import importlib
import importlib.util
import pathlib
import re
import sys


def add_folders(project, settings):
    """Adds the project and the folders of its dependencies to the places of imports.

    They come last, as in LangGraph's own server: a file named as a package that is installed, or as a module of Python, hides neither.
    """
    folders = [project]
    for name in settings.get("dependencies") or []:
        folder = (project / name).resolve() if isinstance(name, str) and name.startswith(".") else None
        if folder is None or not folder.is_dir():
            continue
        if folder != project and (folder / "__init__.py").is_file():
            folders.append(folder.parent)
        folders.append(folder)
    for folder in folders:
        add_folder(folder)


def add_folder(folder):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def load(project, spec):
    """Returns the value that a spec such as "./folder/file.py:name" or "package.module:name" names."""
    path, _, name = spec.partition(":")
    if not path or not name:
        raise SystemExit(f"langgraph.json names a graph that is no path and name: {spec}")
    module = import_file(project, (project / path).resolve()) if path.endswith(".py") else importlib.import_module(path)
    if not hasattr(module, name):
        raise SystemExit(f"{path} has no {name}, which langgraph.json names")
    return getattr(module, name)


def import_file(project, file):
    if not file.is_file():
        raise SystemExit(f"langgraph.json names a file that does not exist: {file.name}")
    name = name_in_package(file)
    if name is not None:
        return importlib.import_module(name)
    add_own_folder(file)
    # The name is the same after each start, since the state of a thread names the modules of its classes.
    place = file.relative_to(project) if file.is_relative_to(project) else pathlib.Path(file.name)
    name = "mooring_graph_" + re.sub(r"\W", "_", str(place.with_suffix("")))
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def name_in_package(file):
    """Returns the name under which the project itself imports a file of a package; None if it has none.

    Under that name the file is one module, however it is imported, and its relative imports work.
    """
    top = file.parent
    if not (top / "__init__.py").is_file():
        return None
    while (top.parent / "__init__.py").is_file():
        top = top.parent
    try:
        found = importlib.util.find_spec(top.name)
    except (ImportError, ValueError):
        return None
    if found is None or str(top) not in (found.submodule_search_locations or []):
        return None
    return ".".join(file.relative_to(top.parent).with_suffix("").parts)


def add_own_folder(file):
    """Lets a file import its neighbours by their bare names, where that hides no folder of the project."""
    folder = file.parent
    if (folder / "__init__.py").is_file() or not (folder / f"{folder.name}.py").is_file():
        add_folder(folder)
