/* A limit as the daemon keeps it, by name or by text.
 *
 * There may be many: an entry has room for its own name and its own terms, of which most limits
 * have one, and not for the most that there can be.
 */
#include <stdlib.h>
#include <string.h>

#include "server/internal.h"

bool limit_entry_change(struct limit_entry *h, const struct weir_limit *parsed)
{
    struct weir_limit *own = malloc(weir__limit_bytes(parsed));

    if (!own)
        return false;
    memcpy(own, parsed, weir__limit_bytes(parsed));
    free((void *)h->limit.parsed);
    h->limit.parsed = own;
    return true;
}

struct limit_entry *limit_entry_make(struct weir__slice name, const struct weir_limit *parsed,
                                     struct store *store)
{
    struct limit_entry *h = calloc(1, sizeof *h + name.len + 1);

    if (!h || !limit_entry_change(h, parsed)) {
        free(h);
        return NULL;
    }
    memcpy(h->name, name.at, name.len);
    h->limit.name = h->name;
    h->store = store;
    h->full_log.at_ns = -1;
    atomic_init(&h->holders, 1);
    return h;
}

size_t limit_entry_bytes(const struct limit_entry *h)
{
    return sizeof *h + strlen(h->name) + 1 + weir__limit_bytes(h->limit.parsed) + 2 * MEMORY_PIECE +
           h->keys_bytes;
}

void limit_entry_release(struct limit_entry *h)
{
    if (atomic_fetch_sub(&h->holders, 1) > 1)
        return;
    if (h->anonymous)
        memory_shrink(h->memory, MEMORY_LITERALS, memory_of_limit(&h->limit));
    if (h->anonymous && h->limit.policy)
        weir__anonymous_close(h->store->engine, h->limit.policy);
    if (h->tallies)
        tallies_release(h->tallies, h->tally);
    free((void *)h->limit.parsed);
    free(h);
}
