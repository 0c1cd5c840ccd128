/* Gathers what a state file contains. */
#include "cli/store/store_info.h"

#include <stdlib.h>
#include <string.h>

#include "cli/store/store_records.h"

/* Records the first error. */
static void store_info_blame(struct store_info *info, int error, const struct weir_diag *why)
{
    if (info->error)
        return;
    info->error = error;
    info->why = *why;
}

static bool store_info_describe(struct weir__record *r, struct store_policy *p)
{
    const uint32_t generation = atomic_load(&r->head.generation);
    const struct weir__version *v = weir__record_version(r, generation, 0);
    struct weir_limit limit = {.n = (int)v->n};
    char text[WEIR_LIMIT_TEXT_MAX];

    memcpy(limit.term, v->term, (size_t)v->n * sizeof v->term[0]);
    memcpy(p->name, r->name, sizeof p->name);
    (void)weir_limit_print(&limit, text, sizeof text);
    p->limit = strdup(text);
    p->since_ns = v->past[0].changed_ns;
    p->versions = weir__record_kept(r, generation);
    return p->limit != NULL;
}

static bool gather_policies(struct store_info *info, struct weir__record *r)
{
    const uint64_t most = info->image.header.max_policies;
    struct weir_diag why;
    int error = store_records_check(&info->image, &why);

    if (error) {
        store_info_blame(info, error, &why);
        return true;
    }
    info->policy = calloc(most, sizeof info->policy[0]);
    for (uint64_t i = 0; i < most && info->policy; i++) {
        const int found = store_records_get(&info->image, i, r, &why);

        if (found < 0)
            store_info_blame(info, found, &why);
        if (found == 1 && !store_info_describe(r, &info->policy[info->policies++]))
            return false;
    }
    return info->policy != NULL;
}

static void gather_tables(struct store_info *info)
{
    struct weir_diag why;

    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES; c++) {
        int error = 0;

        if (atomic_load(&info->image.header.table[c].at) == 0)
            continue;
        error = store_keys_check(&info->image, c, &why);
        if (error)
            store_info_blame(info, error, &why);
        else
            info->table[info->tables++] =
                (struct store_table){weir__size_of_class(c), info->image.header.table[c].bytes,
                                     store_keys_count(&info->image, c, info->now_ns)};
    }
}

bool store_info_open(struct store_info *info, const char *path)
{
    struct weir__record *r = malloc(sizeof *r);
    bool done = r != NULL;

    *info = (struct store_info){.path = path};
    info->error = store_image_open(&info->image, path, &info->why);
    info->readable = info->error == 0;
    if (info->readable && done) {
        info->now_ns = weir__header_now(&info->image.header);
        store_users_find(info->image.fd, &info->users);
        info->unfinished = store_image_unfinished(&info->image);
        gather_tables(info);
        done = gather_policies(info, r);
    }
    free(r);
    if (!done)
        store_info_close(info);
    return done;
}

void store_info_close(struct store_info *info)
{
    for (uint64_t i = 0; i < info->policies; i++)
        free(info->policy[i].limit);
    free(info->policy);
    if (info->readable)
        store_image_close(&info->image);
}

uint64_t store_info_live(const struct store_info *info)
{
    uint64_t live = 0;

    for (uint32_t i = 0; i < info->tables; i++)
        live += info->table[i].keys.live;
    return live;
}
