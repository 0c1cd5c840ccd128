/* Wrong tokens, limited by the address they come from: weir's own token bucket.
 *
 * An address may send ATTEMPTS_LIMIT; beyond that its tokens are not even compared until the bucket
 * has refilled. The store has room for a bounded number of addresses. One that finds no room is
 * let pass: an attacker with that many addresses is slowed down by nothing here, and must not be
 * able to keep others out.
 */
#include "server/access/access.h"

#include <stdlib.h>

#define ATTEMPTS_LIMIT "token-bucket 20/1m burst=20"
#define ATTEMPTS_KEYS  16384
#define ATTEMPTS_BYTES (8 << 20)

struct attempts {
    struct weir *engine;
    struct weir_policy *policy;
};

struct attempts *attempts_open(void)
{
    const struct weir_options o = {.max_keys = ATTEMPTS_KEYS,
                                   .max_memory = ATTEMPTS_BYTES,
                                   .max_policies = 1,
                                   .full = WEIR_FULL_ALLOW};
    struct attempts *a = calloc(1, sizeof *a);

    if (a && weir_open(&a->engine, &o, NULL) == 0 &&
        weir_policy_set_at(a->engine, "attempts", ATTEMPTS_LIMIT, 0, &a->policy, NULL) == 0)
        return a;
    attempts_close(a);
    return NULL;
}

void attempts_close(struct attempts *a)
{
    if (a && a->engine)
        weir_close(a->engine);
    free(a);
}

static struct weir_request attempts_request(const struct attempts *a, struct weir__slice who)
{
    return (struct weir_request){.policy = a->policy, .key = who.at, .key_len = who.len, .cost = 1};
}

bool attempts_may(struct attempts *a, struct weir__slice who, int64_t now_ns, int64_t *retry_ns)
{
    const struct weir_request rq = attempts_request(a, who);
    struct weir_verdict v;

    if (weir_peek_at(a->engine, &rq, now_ns, &v) != 0 || v.allowed)
        return true;
    *retry_ns = v.retry_after_ns;
    return false;
}

void attempts_count(struct attempts *a, struct weir__slice who, int64_t now_ns)
{
    const struct weir_request rq = attempts_request(a, who);
    struct weir_verdict v;

    (void)weir_take_at(a->engine, &rq, now_ns, &v);
}

size_t attempts_bytes(const struct attempts *a)
{
    struct weir_stats stats;

    return weir_stats(a->engine, &stats) == 0 ? (size_t)stats.max_bytes : 0;
}
