"""The assistant, without Qt: agent, tools, permissions, history. `python -m app ask` runs it headless."""
