"""A throttle time written into an answer that is encoded already: of every key and version that is served."""

from odradek.protocol.api_keys import SERVED, ApiKey
from odradek.protocol.messages import response_class
from odradek.protocol.throttle_time import with_throttle_time
from tests.protocol.golden import vectors
from tests.support import each

CASES = [(key, version) for key, (first, last) in SERVED.items() for version in range(first, last + 1)]


@each(CASES, lambda case: f"{ApiKey(case[0]).name} {case[1]}")
def test_only_the_throttle_time_changes(key: int, version: int) -> None:
    kind = response_class(key)
    has_field = any(f.name == "throttle_time_ms" and version in f.versions for f in kind.TABLE)
    recorded = [v for v in vectors() if (v.key, v.type) == (key, "response")]
    # Of a version that was not recorded: what was answered in another one, written in this.
    bodies = [v.body for v in recorded if v.version == version] or [
        kind.decode(v.version, v.body).encode(version) for v in recorded
    ]
    assert bodies
    for body in bodies:
        changed = with_throttle_time(key, version, body, 4321)
        if not has_field:
            assert changed == body
            continue
        expected, found = kind.decode(version, body), kind.decode(version, changed)
        assert found.throttle_time_ms == 4321
        found.throttle_time_ms = expected.throttle_time_ms
        assert found == expected
