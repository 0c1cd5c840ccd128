/* The throttle of the SRE book: no states, but a probability.
 *
 * A client that knows how many of its requests the other side accepted lately can slow down by
 * itself. It may send K times as many as are accepted; it drops the excess itself, at random:
 *
 *     p = max(0, (requests - K x accepts) / (requests + 1))
 *
 *     all well                p = 0
 *     half refused, K = 2     p = 0: there is room for twice what succeeds
 *     all refused             p -> 1; one call in (requests + 1) goes through and finds out
 *
 * K is written as the share of errors that is tolerated: errors=50% is K = 2, kratos' success of
 * 0.6 is errors=40%, 1/0.6. Below `volume` requests nothing is dropped.
 *
 * Requests are all those of the window, including dropped ones: the limit counts what it refuses
 * (count-denied, which this preset implies). Accepts are those that ended well.
 *
 * Exactly: with s = 1000 - errors in thousandths, K = 1000/s, and 64 random bits d, d/2^64 in [0,
 * 1), a call is dropped exactly if d x s x (requests + 1) < (s x requests - 1000 x accepts) x 2^64.
 * Requests are below 2^32, so both sides fit in 128 bits.
 */
#include "algo/breaker/breaker.h"

/* s x requests - 1000 x accepts; nothing is dropped unless it is above 0. */
static int64_t sre_excess(const struct weir__meter *m, struct weir__tally t)
{
    const int64_t share = 1000 - m->term.errors_milli;
    const int64_t accepts = (int64_t)t.calls - t.errors;

    return share * t.calls - 1000 * accepts;
}

bool weir__sre_throttles(const struct weir__meter *m, struct weir__tally t)
{
    return t.calls >= m->term.volume && t.calls > 0 && sre_excess(m, t) > 0;
}

bool weir__sre_drops(const struct weir__meter *m, struct weir__tally t, uint64_t random)
{
    const int64_t share = 1000 - m->term.errors_milli;

    if (!weir__sre_throttles(m, t))
        return false;
    return (weir__u128)random * weir__wide(share * ((int64_t)t.calls + 1)) <
           weir__wide(sre_excess(m, t)) << 64;
}
