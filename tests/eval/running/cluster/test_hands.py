"""What becomes of the trials of a lost worker: again in smaller groups, and given up at last."""

from surecall.eval.running.cluster.hands import GIVEN_UP_AFTER, Group, Hand, Returned
from surecall.eval.running.cluster.messages import Order
from surecall.eval.storage.trial import Cell, Key


def order(number: int, lane: str = "a") -> Order:
    return Order(number, lane, Key(Cell("m"), "x", number))


def hand_of(*orders: Order) -> Hand:
    hand = Hand()
    for each in orders:
        hand.add(each)
    return hand


def groups(returned: Returned) -> list[Group]:
    found = []
    while group := returned.next():
        found.append(group)
    return found


def test_a_hand_counts_what_it_has_in_each_lane() -> None:
    hand = hand_of(order(1), order(2, "b"), order(3))

    assert (len(hand), hand.in_lane("a"), hand.in_lane("b"), hand.lanes) == (3, 2, 1, {"a", "b"})
    assert hand.remove(2) == order(2, "b")
    assert hand.remove(2) is None
    assert (len(hand), hand.in_lane("b"), hand.lanes) == (2, 0, {"a"})


def test_what_a_lost_worker_had_is_run_again_in_small_groups_and_then_alone() -> None:
    returned = Returned()
    assert list(returned.put(hand_of(*map(order, range(20))))) == []
    first = groups(returned)

    assert [len(group.orders) for group in first] == [8, 8, 4]
    assert {group.lost for group in first} == {1}
    hand = Hand()
    hand.take(first[0])
    assert list(returned.put(hand)) == []
    second = groups(returned)
    assert [len(group.orders) for group in second] == [1] * 8
    assert not returned


def test_a_trial_that_ended_worker_after_worker_is_given_up_with_a_sentence() -> None:
    hand = Hand()
    hand.take(Group((order(1),), GIVEN_UP_AFTER - 1))
    (given_up,) = Returned().put(hand)

    assert (given_up.trial.key, given_up.trial.status) == (order(1).key, "infra")
    assert given_up.trial.error == "3 worker processes ended while they ran this trial"


def test_a_hand_that_is_empty_again_takes_the_usual_trials() -> None:
    hand = Hand()
    hand.take(Group((order(1), order(2)), 2))
    hand.remove(1)

    assert hand.lost == 2
    hand.remove(2)
    assert hand.lost == 0
