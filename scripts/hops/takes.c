/* Takes from one key until everything is warm, the clock too (clock.h), for scripts/hops.py:
 * `takes STORE-URL`. */
#include <stdio.h>

#include <weir.h>

#define WARM_NS 200000000

int main(int argc, char **argv)
{
    const struct weir_options options = {.store = argc > 1 ? argv[1] : "memory:"};
    struct weir_policy *policy;
    struct weir_diag why = {0};
    struct weir *w;

    if (weir_open(&w, &options, &why) != 0 ||
        weir_policy_set(w, "api", "token-bucket 1000000/s burst=1000000", &policy, &why) != 0) {
        (void)fprintf(stderr, "takes: %s\n", why.text);
        return 1;
    }
    for (const int64_t until_ns = weir_now(NULL) + WARM_NS; weir_now(NULL) < until_ns;) {
        const struct weir_request rq = weir_request_of(policy, "alice", 5);
        struct weir_verdict v;

        if (weir_take(w, &rq, &v) != 0 || !v.allowed)
            return 1;
    }
    weir_close(w);
    return 0;
}
