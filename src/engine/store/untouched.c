/* Untouched keys: limits whose keys have no table yet.
 *
 * Opening an anonymous policy creates the tables for its keys. A caller that only peeks must create
 * nothing: if a table of the limit is missing, no key of it was ever charged, so every key is
 * untouched, and the verdict for an untouched key follows from the limit alone.
 */
#include <stdlib.h>

#include "engine/engine.h"
#include "engine/policy/anonymous.h"
#include "engine/store/file.h"

static bool untouched_has_table(const struct weir__store *s, const struct weir_term *t)
{
    struct weir__meter m;
    uint32_t c;

    weir__meter_init(&m, t, 0);
    c = weir__size_class(weir__meter_state_size(&m)) + WEIR__FIRST_ANONYMOUS;
    return atomic_load(&s->table[c]) ||
           (s->file && atomic_load(&s->file->header->table[c].at) != 0);
}

bool weir__anonymous_has_tables(const struct weir *w, const struct weir_limit *limit)
{
    for (int i = 0; i < limit->n && !w->remote; i++)
        if (!untouched_has_table(w->store, &limit->term[i]))
            return false;
    return true;
}

size_t weir__limit_state_bytes(const struct weir_limit *limit)
{
    size_t bytes = 0;

    for (int i = 0; i < limit->n; i++) {
        struct weir__meter m;

        weir__meter_init(&m, &limit->term[i], 0);
        bytes += (weir__meter_state_size(&m) + 7) / 8 * 8;
    }
    return bytes;
}

static void untouched_peek(struct weir__revision *rev, char *zeros, const struct weir_request *rq,
                           struct weir__now now, struct weir_verdict *v)
{
    struct weir__part part[WEIR_TERMS_MAX];

    for (int i = 0; i < rev->n; i++) {
        struct weir__compiled_term *c = &rev->term[i];

        part[i] = (struct weir__part){
            .meter = &c->meter,
            .state = (struct weir__state *)(void *)zeros,
            .attempt = weir__term_attempt(c, rq->cost, rq->patience_ns, now.now_ns, now.wall_ns)};
        zeros += (weir__meter_state_size(&c->meter) + 7) / 8 * 8;
    }
    weir__decide_peek(part, rev->n, v);
}

int weir__untouched_peek(struct weir *w, const struct weir_limit *limit,
                         const struct weir_request *rq, struct weir_verdict *v)
{
    const int64_t created_ns = atomic_load(&w->store->directory->created_ns);
    char *zeros = calloc(1, weir__limit_state_bytes(limit));
    struct weir__revision *rev = NULL;
    int error =
        zeros ? weir__revision_open(&rev, limit, NULL, created_ns, created_ns) : WEIR_ENOMEM;

    if (!error)
        untouched_peek(rev, zeros, rq, weir__now_of(w), v);
    weir__revision_close(rev);
    free(zeros);
    return error;
}
