/* `weir store convert`: gives a state file another size. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/commands.h"
#include "cli/store/store_change.h"
#include "cli/store/store_info.h"
#include "cli/store/store_options.h"

/* The default of max_memory follows max_keys and max_policies; a chosen value stays. */
static uint64_t memory_for(const struct store_image *m, const struct store_plan *p)
{
    const struct weir_options was = {.max_keys = m->header.max_keys,
                                     .max_policies = (uint32_t)m->header.max_policies};
    const struct weir_options is = {.max_keys = p->max_keys,
                                    .max_policies = (uint32_t)p->max_policies};

    if (m->header.max_memory != weir__options_filled(&was).max_memory)
        return m->header.max_memory;
    return weir__options_filled(&is).max_memory;
}

static struct store_plan convert_plan(const struct store_image *m, const struct store_options *a)
{
    struct store_plan p = store_plan_of(m);

    if (a->max_keys)
        p.max_keys = (uint64_t)a->max_keys;
    if (a->max_policies)
        p.max_policies = (uint64_t)a->max_policies;
    p.max_memory = a->max_memory ? (uint64_t)a->max_memory : memory_for(m, &p);
    return p;
}

static bool convert_changes(const struct store_image *m, const struct store_plan *p)
{
    return p->max_keys != m->header.max_keys || p->max_memory != m->header.max_memory ||
           p->max_policies != m->header.max_policies;
}

static int convert_fail(const struct weir_diag *why)
{
    (void)fflush(stdout);
    (void)fprintf(stderr, "weir store convert: %s\n", why->text);
    return EXIT_FAILED;
}

static void convert_print_number(const char *what, uint64_t was, uint64_t is)
{
    if (was != is)
        store_print_line(what, "%" PRIu64 " -> %" PRIu64, was, is);
    else
        store_print_line(what, "%" PRIu64, is);
}

static void convert_print(const struct store_options *a, const struct store_image *m,
                          const struct store_plan *p, const struct store_result *r)
{
    (void)printf("%s: converted\n", a->file);
    convert_print_number("max_keys", m->header.max_keys, p->max_keys);
    convert_print_number("max_memory", m->header.max_memory, p->max_memory);
    convert_print_number("max_policies", m->header.max_policies, p->max_policies);
    convert_print_number("bytes", atomic_load(&m->header.bytes), r->bytes);
    store_print_line("policies", "%" PRIu64 " kept", r->policies);
    store_print_line("live keys", "%" PRIu64 " kept", r->live);
    if (m->undone > 0)
        store_print_line("undone", "%" PRIu64 " decision%s of killed processes", m->undone,
                         m->undone == 1 ? "" : "s");
    if (a->out)
        store_print_line("new file", "%s", a->out);
    else
        store_print_line("old file", "%s.bak", a->file);
}

static int convert_file(const struct store_options *a)
{
    struct store_image m;
    struct store_result result;
    struct store_plan p;
    struct weir_diag why;
    int error = store_image_open_exclusive(&m, a->file, &why);

    if (error)
        return convert_fail(&why);
    p = convert_plan(&m, a);
    error = store_change(&m, &p, a->out, STORE_KEEP_OLD, &result, &why);
    if (!error)
        convert_print(a, &m, &p, &result);
    store_image_close(&m);
    return error ? convert_fail(&why) : EXIT_DONE;
}

int store_convert_run(const struct store_options *a)
{
    struct store_image m;
    struct weir_diag why;
    struct store_plan p;
    bool needed;

    if (store_image_open(&m, a->file, &why) != 0)
        return convert_fail(&why);
    p = convert_plan(&m, a);
    needed = a->out || convert_changes(&m, &p);
    store_image_close(&m);
    if (needed)
        return convert_file(a);
    (void)printf("%s: has max_keys %" PRIu64 ", max_memory %" PRIu64 " and max_policies %" PRIu64
                 " already; nothing was changed\n",
                 a->file, p.max_keys, p.max_memory, p.max_policies);
    return EXIT_DONE;
}
