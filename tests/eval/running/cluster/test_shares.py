"""A limit that several workers share is kept by all of them together."""

from surecall.eval.running.cluster.shares import Shares


def test_everybody_gets_a_fair_part_and_all_together_no_more_than_there_is() -> None:
    shares = Shares()
    parts = [shares.grant(name, 16, 3) for name in ("a", "b", "c")]

    assert parts == [6, 6, 4]
    assert sum(parts) == 16


def test_one_that_is_alone_has_everything_and_gives_it_back_before_another_gets_it() -> None:
    shares = Shares()

    assert shares.grant("a", 16, 1) == 16
    assert shares.grant("b", 16, 2) == 0
    assert shares.grant("a", 16, 2) == 8
    assert shares.grant("b", 16, 2) == 8


def test_what_an_idle_or_lost_worker_held_goes_to_the_others() -> None:
    shares = Shares()
    shares.grant("a", 4, 2)
    shares.grant("b", 4, 2)
    shares.give_back("a")
    shares.give_back("a")

    assert shares.grant("b", 4, 1) == 4


def test_fewer_than_there_are_workers_go_to_the_first() -> None:
    shares = Shares()

    assert [shares.grant(name, 1, 3) for name in ("a", "b", "c")] == [1, 0, 0]


def test_a_limit_that_falls_is_kept_as_soon_as_everybody_has_heard_of_it() -> None:
    shares = Shares()
    for name in ("a", "b"):
        shares.grant(name, 8, 2)

    assert [shares.grant(name, 4, 2) for name in ("a", "b", "a")] == [0, 2, 2]
