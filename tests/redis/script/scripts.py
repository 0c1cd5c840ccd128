#!/usr/bin/env python3
"""The scripts of src/redis/script in a real Redis: the same answers as the library, to the
microsecond.

    scripts.py PATH_TO_WEIR [SCENE...] [--scripts=N] [--seed=S]
    scripts.py PATH_TO_WEIR --costs         prints what a decision costs Redis, and checks nothing

A scene is a function named as a sentence, with a Redis of its own. Time is injected, but for the
scenes that say otherwise.
"""

import os
import sys
import time
import traceback

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "oracle"),
                os.path.join(HERE, "..", "..", "vectors")]
import scripts_answers as answers  # noqa: E402
import scripts_keys as keys  # noqa: E402
import scripts_drain as pay  # noqa: E402
from scripts_costs import print_costs  # noqa: E402
from scripts_kit import FAILED, OPTIONS, check, tally  # noqa: E402
from scripts_redis import Redis  # noqa: E402

SCENES = (
    answers.exact_integers_are_exact, answers.vectors_have_their_answers,
    answers.random_scripts_have_the_oracles_answers,
    answers.random_estimates_are_settled_as_by_the_oracle,
    answers.estimates_are_settled_otherwise_where_it_is_said,
    answers.many_small_estimates_are_settled_as_by_the_oracle, answers.the_library_answers_alike,
    answers.the_largest_and_the_smallest_numbers_are_exact, keys.a_cold_key_costs_nothing,
    keys.a_key_as_good_as_new_is_gone, keys.states_have_the_bytes_of_their_format,
    keys.an_account_in_events_gives_nothing_back, keys.redis_own_clock_serves_too,
    keys.a_log_takes_no_more_than_it_must,
    keys.several_terms_are_all_or_nothing, keys.a_key_named_twice_sees_its_first_charge,
    keys.tickets_enter_and_leave, keys.another_algorithm_starts_fresh,
    keys.a_change_converts_each_key_when_it_is_touched,
    keys.skew_of_a_clients_clock_changes_nothing, keys.a_request_that_fails_charges_no_key,
    pay.paying_takes_what_remains_and_no_more, pay.a_drained_backlog_is_not_refused,
    pay.a_heartbeat_counts_the_nodes_heard_of, pay.a_format_belongs_to_those_who_have_it,
    pay.a_store_that_cannot_be_written_has_no_pulse)


def main():
    if "costs" in OPTIONS:
        with Redis() as redis:
            return print_costs(redis)
    chosen = [word for word in sys.argv[2:] if not word.startswith("-")]
    for scene in SCENES:
        if chosen and scene.__name__ not in chosen:
            continue
        begun, failed = time.monotonic(), len(FAILED)
        try:
            with Redis() as redis:
                scene(redis)
        except Exception:           # of this scene, not of the others
            check(scene.__name__, False, traceback.format_exc())
        verdict, seconds = "ok" if failed == len(FAILED) else "FAILED", time.monotonic() - begun
        print(f"{verdict:6} {scene.__name__} ({seconds:.1f} s)", flush=True)
    return tally("scripts in Redis")


if __name__ == "__main__":
    sys.exit(main())
