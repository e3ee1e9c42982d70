"""Odradek: a Kafka-compatible replicated log whose controller can be understood."""

__version__ = "0.2.0"
