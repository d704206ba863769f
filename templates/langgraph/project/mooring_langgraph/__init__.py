"""A server for graphs of LangGraph in Python, whose state is in SQLite on the agent's volume."""
