"""What travels between processes arrives as it was, and shows no key."""

import pickle

from surecall.eval.running.cluster.messages import (
    PACKER,
    READ_NEWS,
    READ_ORDERS,
    Heard,
    News,
    Order,
    Orders,
    Outcome,
    SealedKey,
)
from surecall.eval.running.guarded_trial import Ended
from surecall.eval.storage.trial import Cell, Key, Miss, Score, Trial
from surecall.values.types import Secret

KEY = Key(Cell("m"), "x", 1)


def test_orders_and_news_arrive_as_they_were() -> None:
    orders = Orders([Order(1, "lane", KEY)], 4, {"lane": 2}, {"lane": 0.5})
    outcome = Outcome.of(1, Ended(Trial(key=KEY, status="passed"), b"{}\n", "said"))
    news = News([1], [outcome], [Heard("lane", 0.1, 200, {"a": "b"})], [2], "wrong")

    assert READ_ORDERS.decode(PACKER.encode(orders)) == orders
    assert READ_NEWS.decode(PACKER.encode(news)) == news


def test_a_result_arrives_whole() -> None:
    score = Score(state=False, misses=(Miss("c", "e", "g", 1, "id"),), facts={"seen": True})
    trial = Trial(
        key=KEY,
        status="failed",
        category="X",
        score=score,
        draft={"large": 10**30, "text": "ä\u2028", "nested": [1.5, None]},
    )
    ended = Ended(trial, b"line\n", "what to do")

    assert Outcome.of(1, ended).ended == ended


def test_an_answer_is_heard_without_its_body() -> None:
    answer = Heard("lane", 0.1, 429, {"retry-after": "1"}).answer

    assert (answer.status, answer.headers, answer.body) == (429, {"retry-after": "1"}, b"")


def test_a_key_on_its_way_arrives_and_is_not_shown() -> None:
    sealed = SealedKey(Secret("sk-made-up"))
    arrived = pickle.loads(pickle.dumps(sealed))  # noqa: S301  # what was written a line ago
    nothing = pickle.loads(pickle.dumps(SealedKey(None)))  # noqa: S301  # the same

    assert "made-up" not in f"{sealed} {sealed!r} {arrived!r} {vars(sealed)}"
    assert arrived.secret.reveal() == "sk-made-up"
    assert nothing.secret is None
