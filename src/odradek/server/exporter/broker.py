"""What the broker as a whole does: connections, requests, ISR changes, elections."""

from collections import Counter
from collections.abc import Iterator

from odradek.broker.client_throttles import QUOTAS
from odradek.protocol.api_keys import ApiKey
from odradek.server.exporter.families import Family, Number, one, pieces, table
from odradek.server.exporter.seen import Seen

RUNNING, STOPPING = 3, 6  # of Apache's BrokerState
LOOP_IDLE = (
    "Share of the last minute in which the broker's one loop had nothing to do, 0 to 1. It reads, decides and writes, so the "
    "share of both pools of Apache's is the same."
)
FAMILIES = table(
    Family(
        "kafka_server_kafkaserver_brokerstate",
        "gauge",
        "3: running; 6: stopping in order.",
        source="kafka.server:type=KafkaServer,name=BrokerState",
    ),
    Family(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        "gauge",
        LOOP_IDLE,
        source="kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
    ),
    Family(
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "gauge",
        LOOP_IDLE,
        source="kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent",
    ),
    Family(
        "kafka_server_socket_server_metrics_connection_count",
        "gauge",
        "Connections that are open.",
        ("listener",),
        "kafka.server:type=socket-server-metrics,listener=*,networkProcessor=*",
    ),
    Family(
        "kafka_network_requestmetrics_requests_total",
        "counter",
        "Requests that have come, by API; `other` for keys that no API has.",
        ("request",),
        "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=*",
    ),
    Family(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "gauge",
        "Log directories that have failed.",
        source="kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
    ),
    Family(
        "kafka_server_replicamanager_isrshrinks_total",
        "counter",
        "Times that an ISR of a partition led here lost a member.",
        source="kafka.server:type=ReplicaManager,name=IsrShrinksPerSec",
    ),
    Family(
        "kafka_server_replicamanager_isrexpands_total",
        "counter",
        "Times that an ISR of a partition led here got a member.",
        source="kafka.server:type=ReplicaManager,name=IsrExpandsPerSec",
    ),
    Family(
        "kafka_server_sessionexpirelistener_zookeeperexpires_total",
        "counter",
        "Sessions with the store (ZooKeeper, or the embedded one) that have expired.",
        source="kafka.server:type=SessionExpireListener,name=ZooKeeperExpiresPerSec",
    ),
    Family(
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        "counter",
        "Partitions that got a leader from outside the ISR while this broker was controller.",
        source="kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec",
    ),
    Family(
        "kafka_controller_kafkacontroller_activecontrollercount",
        "gauge",
        "1 where this broker is the controller, else 0.",
        source="kafka.controller:type=KafkaController,name=ActiveControllerCount",
    ),
    Family("odradek_bytes_received_total", "counter", "Bytes of requests that have come."),
    Family("odradek_connections_accepted_total", "counter", "Connections that were accepted."),
    Family(
        "odradek_connections_refused_total",
        "counter",
        "Connections that were refused, or closed to make room.",
    ),
    Family(
        "odradek_connections_idle_closed_total",
        "counter",
        "Connections closed after connections.max.idle.ms.",
    ),
    Family(
        "odradek_unsent_answers_bytes",
        "gauge",
        "Memory of answers that clients have not read yet; above 256 MiB connections are closed.",
    ),
    Family(
        "odradek_connections_unread_closed_total",
        "counter",
        "Connections closed because answers that clients do not read took too much memory.",
    ),
    Family(
        "odradek_unhandled_requests_bytes",
        "gauge",
        "Memory of requests that have not come whole, or wait to be handled; above 256 MiB connections are closed.",
    ),
    Family(
        "odradek_connections_unfinished_closed_total",
        "counter",
        "Connections closed because requests that do not come whole took too much memory.",
    ),
    Family(
        "odradek_nonsense_frames_total",
        "counter",
        "Requests that could not be read; their connection was closed.",
    ),
    Family(
        "odradek_requests_failed_inside_total",
        "counter",
        "Requests on which the broker itself failed: each is a defect to report, and the log has it.",
    ),
    Family(
        "odradek_fetcher_failures_total",
        "counter",
        "Times that a connection to a leader was lost or refused.",
    ),
    Family(
        "odradek_requests_throttled_total",
        "counter",
        "Requests after which a client was held up by a quota: of bytes produced, of bytes fetched, or of time (request).",
        ("quota",),
    ),
    Family(
        "odradek_throttle_time_seconds_total",
        "counter",
        "How long clients were held up by these quotas; a wait for several reasons counts as the longest.",
        ("quota",),
    ),
    Family("odradek_controller_elections_total", "counter", "Elections that this broker has won."),
    Family("odradek_controller_resignations_total", "counter", "Terms as controller that have ended."),
)
_NAMES_OF_KEYS = {key.value: "".join(word.capitalize() for word in key.name.split("_")) for key in ApiKey}


def collect(seen: Seen) -> Iterator[str]:
    metrics = seen.metrics
    numbers: dict[str, Number] = {
        "kafka_server_kafkaserver_brokerstate": STOPPING if seen.is_stopping() else RUNNING,
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent": seen.idle_share(),
        "kafka_network_socketserver_networkprocessoravgidle_percent": seen.idle_share(),
        "kafka_log_logmanager_offlinelogdirectorycount": len(seen.logs.offline_directories),
        "kafka_server_replicamanager_isrshrinks_total": seen.broker.isr_channel.shrinks,
        "kafka_server_replicamanager_isrexpands_total": seen.broker.isr_channel.expansions,
        "kafka_server_sessionexpirelistener_zookeeperexpires_total": metrics.session_expirations,
        "kafka_controller_controllerstats_uncleanleaderelections_total": metrics.unclean_elections,
        "kafka_controller_kafkacontroller_activecontrollercount": int(seen.controller.is_leading),
        "odradek_bytes_received_total": metrics.bytes_in,
        "odradek_connections_accepted_total": metrics.connections_accepted,
        "odradek_connections_refused_total": metrics.connections_refused,
        "odradek_connections_idle_closed_total": metrics.connections_idle_closed,
        "odradek_unsent_answers_bytes": seen.gateway.unsent.size_bytes,
        "odradek_connections_unread_closed_total": metrics.connections_unread_closed,
        "odradek_unhandled_requests_bytes": seen.gateway.unhandled.size_bytes,
        "odradek_connections_unfinished_closed_total": metrics.connections_unfinished_closed,
        "odradek_nonsense_frames_total": metrics.nonsense_frames,
        "odradek_requests_failed_inside_total": metrics.requests_failed_inside,
        "odradek_fetcher_failures_total": metrics.fetcher_failures,
        "odradek_controller_elections_total": metrics.controller_elections,
        "odradek_controller_resignations_total": metrics.controller_resignations,
    }
    for name, number in numbers.items():
        yield one(FAMILIES[name], number)
    yield from pieces(
        FAMILIES["kafka_server_socket_server_metrics_connection_count"],
        [((listener,), count) for listener, count in seen.gateway.per_listener.items()],
    )
    yield from pieces(
        FAMILIES["kafka_network_requestmetrics_requests_total"],
        [((name,), count) for name, count in _requests(seen).items()],
    )
    counters = seen.broker.throttles.counters
    yield from pieces(
        FAMILIES["odradek_requests_throttled_total"],
        [((quota,), counters[f"{quota}_throttled"]) for quota in QUOTAS],
    )
    yield from pieces(
        FAMILIES["odradek_throttle_time_seconds_total"],
        [((quota,), counters[f"{quota}_throttle_time_ms"] / 1000) for quota in QUOTAS],
    )


def _requests(seen: Seen) -> dict[str, int]:
    """By the name of their API. There are keys that no API has between those of others: together they are one sample."""
    found: Counter[str] = Counter()
    for key, count in enumerate(seen.metrics.requests_by_key):
        if count or key in seen.broker.handlers.versions:
            found[_NAMES_OF_KEYS.get(key, "other")] += count
    return found
