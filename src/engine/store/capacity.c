/* The capacity for a limit: for how many keys weir__revision_place_anew would find room, computed
 * without a store. */
#include "engine/engine.h"

/* The bytes that a private store has for tables. */
static uint64_t capacity_table_bytes(const struct weir_options *o)
{
    const uint64_t policies = weir__directory_size(o->max_policies);

    return o->max_memory > policies ? o->max_memory - policies : 0;
}

/* All terms whose keys are in one table. */
struct sharing {
    uint64_t reserved, sharers;
};

static struct sharing capacity_sharing(const struct weir_limit *l, const uint32_t *size_class,
                                       uint32_t c)
{
    struct sharing all = {0, 0};

    for (int i = 0; i < l->n; i++) {
        if (size_class[i] != c)
            continue;
        all.reserved += (uint64_t)l->term[i].keys;
        all.sharers += l->term[i].keys == 0;
    }
    return all;
}

static uint64_t capacity_part(const struct weir_term *t, uint64_t table_keys, struct sharing all)
{
    if (table_keys < all.reserved)
        return 0;
    return t->keys > 0 ? (uint64_t)t->keys : (table_keys - all.reserved) / all.sharers;
}

void weir__capacity_keys(const struct weir_limit *l, const struct weir_options *options,
                         uint64_t keys[WEIR_TERMS_MAX])
{
    const struct weir_options o = weir__options_filled(options);
    uint64_t left = capacity_table_bytes(&o), table_keys[WEIR_TERMS_MAX];
    uint32_t size_class[WEIR_TERMS_MAX];

    for (int i = 0; i < l->n; i++) {
        struct weir__meter m;

        weir__meter_init(&m, &l->term[i], 0);
        size_class[i] = weir__size_class(weir__meter_state_size(&m));
    }
    for (int i = 0; i < l->n; i++) {
        const struct sharing all = capacity_sharing(l, size_class, size_class[i]);
        struct weir__table_options t;
        uint64_t bytes;
        int first = 0;

        while (size_class[first] != size_class[i])
            first++;
        if (first == i) {
            t = weir__class_options(size_class[i], false, o.max_keys, o.max_policies, all.reserved,
                                    left);
            bytes = weir__whole_pages(weir__table_size(&t));
            table_keys[i] = bytes > left ? 0 : t.max_keys;
            left -= bytes > left ? 0 : bytes;
        }
        keys[i] = capacity_part(&l->term[i], table_keys[first], all);
    }
}
