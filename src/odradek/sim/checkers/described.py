"""What brokers at rest answer to whoever administers a cluster, against what is so: every field that names something."""

from collections.abc import Iterator, Mapping

from odradek.model.ids import BrokerId
from odradek.sim.checkers.history import Anomaly

Facts = Mapping[str, object]  # what it is about -> what is told of it, or is so
NOTHING = "nothing"


def told_as_it_is(broker: BrokerId, told: Facts, before: Facts, after: Facts) -> Iterator[Anomaly]:
    """AnswersAtRest, of everything else: `before` and `after` it was asked; what has changed meanwhile is not judged."""
    for what in sorted({*told, *before, *after}):
        said, so = told.get(what, NOTHING), after.get(what, NOTHING)
        if said != so and so == before.get(what, NOTHING):
            yield Anomaly("AnswersAtRest", None, f"broker {broker} tells of {what}: {said}, and it is {so}")


def tidy(left: Mapping[str, str]) -> Iterator[Anomaly]:
    """StoreIsTidy: what the store keeps of a topic goes with it, and what was to be done is done: a node that is left would speak for
    the next topic of the name, or be taken for a request by the next controller. `left`: path -> why it should be gone."""
    for path, why in sorted(left.items()):
        yield Anomaly("StoreIsTidy", None, f"{path} is left: {why}")
