"""Serves the graphs that a Python project's langgraph.json names, with the routes of LangGraph's API that its own clients call."""

import os
import pathlib
import sys

OWN_FOLDER = str(pathlib.Path(__file__).parent)

from mooring_langgraph.server import serve  # noqa: E402

# The folder of this program would otherwise be the first one in which the project's imports are looked for.
sys.path[:] = [folder for folder in sys.path if folder != OWN_FOLDER]

serve(pathlib.Path.cwd(), pathlib.Path(os.environ.get("MOORING_VOLUME", ".")))
