"""Odradek: a Kafka-compatible replicated log whose controller can be understood."""

__version__ = "0.1.0"
