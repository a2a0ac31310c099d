"""Requests to language models: the handler of a task, the providers and the embedded models."""
