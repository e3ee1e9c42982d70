"""Metrics of a broker for Prometheus: the table of them, who reads each, the page and the port."""
