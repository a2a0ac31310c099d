"""Talking to models: the handler of a task, providers, the embedded model."""
