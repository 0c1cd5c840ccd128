/* Foreseeing the room for a limit: the number of keys that weir__revision_place_anew would find,
 * computed without a store. */
#include "engine/engine.h"

/* The bytes that a private store has for tables. */
static uint64_t foresee_table_bytes(const struct weir_options *o)
{
    const uint64_t policies = weir__directory_size(o->max_policies);

    return o->max_memory > policies ? o->max_memory - policies : 0;
}

/* All terms whose keys are in one table. */
struct sharing {
    uint64_t asked, sharers;
};

static struct sharing foresee_class(const struct weir_limit *l, const uint32_t *size_class,
                                    uint32_t c)
{
    struct sharing all = {0, 0};

    for (int i = 0; i < l->n; i++) {
        if (size_class[i] != c)
            continue;
        all.asked += (uint64_t)l->term[i].keys;
        all.sharers += l->term[i].keys == 0;
    }
    return all;
}

static uint64_t foresee_part(const struct weir_term *t, uint64_t table_keys, struct sharing all)
{
    if (table_keys < all.asked)
        return 0;
    return t->keys > 0 ? (uint64_t)t->keys : (table_keys - all.asked) / all.sharers;
}

void weir__foresee_keys(const struct weir_limit *l, const struct weir_options *options,
                        uint64_t keys[WEIR_TERMS_MAX])
{
    const struct weir_options o = weir__options_filled(options);
    uint64_t left = foresee_table_bytes(&o), table_keys[WEIR_TERMS_MAX];
    uint32_t size_class[WEIR_TERMS_MAX];

    for (int i = 0; i < l->n; i++) {
        struct weir__meter m;

        weir__meter_init(&m, &l->term[i], 0);
        size_class[i] = weir__size_class(weir__meter_state_size(&m));
    }
    for (int i = 0; i < l->n; i++) {
        const struct sharing all = foresee_class(l, size_class, size_class[i]);
        struct weir__table_options t;
        uint64_t bytes;
        int first = 0;

        while (size_class[first] != size_class[i])
            first++;
        if (first == i) {
            t = weir__class_options(size_class[i], false, o.max_keys, o.max_policies, all.asked,
                                    left);
            bytes = weir__whole_pages(weir__table_size(&t));
            table_keys[i] = bytes > left ? 0 : t.max_keys;
            left -= bytes > left ? 0 : bytes;
        }
        keys[i] = foresee_part(&l->term[i], table_keys[first], all);
    }
}
