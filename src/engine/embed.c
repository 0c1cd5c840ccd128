/* What the daemon and the simulation may look at in an engine; see embed.h. */
#include "engine/embed.h"

#include "engine/engine.h"
#include "os/clock.h"

int64_t weir__engine_clock(void)
{
    return weir__clock_now();
}

int64_t weir__engine_term_patience(const struct weir_term *t)
{
    return weir__term_patience(t);
}

int weir__engine_open_virtual(struct weir **w, const struct weir_options *options,
                              const uint64_t *random, struct weir_diag *why)
{
    const int error = weir_open(w, options, why);

    if (error)
        return error;
    (*w)->random = random;
    weir__load_unsampled(&(*w)->load);
    return 0;
}

uint64_t weir__policy_scope(struct weir_policy *p, int term)
{
    const struct weir__revision *rev;
    uint64_t scope;

    weir__rcu_enter();
    rev = atomic_load_explicit(&p->revision, memory_order_acquire);
    scope = term < rev->n ? rev->term[term].scope : 0;
    weir__rcu_exit();
    return scope;
}

const uint64_t *weir__engine_secret(const struct weir *w)
{
    return w->store->secret;
}

struct weir__store_sizes weir__engine_sizes(const struct weir *w)
{
    return (struct weir__store_sizes){w->store->max_keys, w->store->max_memory};
}

uint64_t weir__engine_policy_changes(const struct weir *w)
{
    return atomic_load(&w->store->directory->tags);
}

bool weir__policy_is_set(const struct weir_policy *p)
{
    return atomic_load_explicit(&p->record->tag, memory_order_relaxed) == p->tag;
}

size_t weir__engine_names_bytes(uint64_t max_policies)
{
    return weir__directory_size(max_policies);
}

size_t weir__anonymous_bytes(int terms)
{
    return sizeof(struct weir_policy) + sizeof(struct weir__record_head) +
           sizeof(struct weir__revision) + (size_t)terms * sizeof(struct weir__compiled_term);
}
