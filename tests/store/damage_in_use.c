/* Damage to a file that a process has open: to where its tables are (on opening too), to a table,
 * an owner and the clock. The process goes on with what it has read, or answers with an error; it
 * neither crashes nor hangs.
 */
#include "trial.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "table/layout.h"

/* ---- Where tables are ------------------------------------------------------------------------ */

/* A region that a header may be made to name, in place of one of a table. */
static const struct astray {
    const char *what;
    uint64_t at, bytes; /* bytes 0: as they were */
} ASTRAY[] = {
    {"nowhere", 0, 0},
    {"at no page's edge", 8, 0},
    {"in the header", 4096, 0},
    {"over the journals", 8192, 4096},
    {"just behind what it may be", UINT64_C(1) << 40, 0},
    {"beyond the end of memory", UINT64_MAX - 4095, 0},
    {"so large that it ends before it begins", UINT64_C(1) << 20, UINT64_MAX - 4095},
    {"of no bytes", 0, 1},
};

static void put_astray(struct weir__region *r, const struct astray *to)
{
    if (to->bytes)
        r->bytes = to->bytes & ~UINT64_C(1);
    if (to->at || !to->bytes)
        atomic_store(&r->at, to->at == 8 ? atomic_load(&r->at) + 8 : to->at);
}

/* With a journal that still names a lock of the table: an undo must not follow it there. */
static void a_table_at_another_address_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(ASTRAY); i++) {
        struct image image = trial_copy();
        struct weir__header *h = trial_header(&image);
        struct weir__journal *j = (void *)(image.at + h->journals_at);
        struct trial t;

        atomic_store(&j[0].lock_at[0], atomic_load(&h->table[0].at) + WEIR__TABLE_HEADER);
        put_astray(&h->table[0], &ASTRAY[i]);
        trial_write("damaged", image.at, image.bytes);
        t = trial_open("damaged");
        if (t.ended != 0 || t.error != WEIR_EFORMAT)
            fail_msg("a table %s: ended %d, %s: %s", ASTRAY[i].what, t.ended,
                     weir_error_name(t.error), t.text);
        image_free(&image);
    }
}

/* What /proc/self/maps says about the file, and about everything else that is mapped from files. */
struct maps {
    int n;
    char line[256][160];
};

static void read_maps(struct maps *m)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[600];

    m->n = 0;
    while (f && fgets(line, sizeof line, f))
        if (strchr(line, '/') && m->n < (int)LENGTH(m->line))
            (void)snprintf(m->line[m->n++], sizeof m->line[0], "%.150s", line);
    if (f)
        (void)fclose(f);
}

static bool same_maps(const struct maps *a, const struct maps *b)
{
    if (a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++)
        if (strcmp(a->line[i], b->line[i]) != 0)
            return false;
    return true;
}

/* A process that has the file open, and the file's bytes as another process would write them. */
struct live {
    struct weir *w;
    struct weir_policy *p;
    struct image_file file;
    struct weir__header *header;
};

static void live_open(struct live *l)
{
    char path[FOLDER_PATH];
    struct image image = trial_copy();

    l->w = trial_store("live", &image);
    image_free(&image);
    l->p = weir_policy_find(l->w, "p");
    folder_path(path, "live");
    l->file = image_open(path);
    l->header = (struct weir__header *)(void *)l->file.at;
    (void)trial_take(l->w, l->p, "used"); /* it is an owner now */
}

static int take_of(struct live *l)
{
    const struct weir_request rq = weir_request_of(l->p, "used", 4);
    struct weir_verdict v;

    return weir_take_at(l->w, &rq, T0, &v);
}

static void *take_elsewhere(void *arg)
{
    struct live *l = arg;

    return (void *)(intptr_t)take_of(l);
}

/* A thread that is no owner yet, and therefore reads the header again. */
static int take_by_a_newcomer(struct live *l)
{
    pthread_t thread;
    void *error = NULL;

    if (pthread_create(&thread, NULL, take_elsewhere, l) != 0 || pthread_join(thread, &error) != 0)
        return 1;
    return (int)(intptr_t)error;
}

/* A region in the live header, and a dead owner's number in the buckets, so that the next caller
 * maps what the header says. Nothing of a file may be mapped anywhere else then. */
static void follow_the_header(struct trial *t, void *arg)
{
    static struct maps before, after;
    const struct astray *to = arg;
    const struct weir__table *table;
    struct live l;

    live_open(&l);
    table = (const void *)(l.file.at + atomic_load(&l.header->table[0].at));
    read_maps(&before);
    for (uint64_t b = 0; b < table->buckets_max; b++)
        atomic_store(&weir__bucket_at(table, b)->lock.holder, 300);
    if (strcmp(to->what, "of a table that is not there") == 0) {
        l.header->table[9].bytes = to->bytes;
        atomic_store(&l.header->table[9].at, to->at);
    } else {
        put_astray(&l.header->table[0], to);
    }
    t->error = take_of(&l);
    t->at = take_by_a_newcomer(&l);
    read_maps(&after);
    if (!same_maps(&before, &after))
        (void)snprintf(t->text, sizeof t->text, "something else is mapped");
}

static void a_live_header_moves_nothing(void **state)
{
    static const struct astray MORE = {"of a table that is not there", UINT64_C(0xd3ef000), 4096};

    (void)state;
    for (size_t i = 0; i <= LENGTH(ASTRAY); i++) {
        const struct astray *a = i < LENGTH(ASTRAY) ? &ASTRAY[i] : &MORE;
        struct trial t = trial_run(follow_the_header, (void *)(uintptr_t)a);

        if (t.ended != 0 || t.error != WEIR_EFORMAT || t.at != WEIR_EFORMAT || t.text[0] != '\0')
            fail_msg("a table %s: ended %d, %s, newcomers %s, %s", a->what, t.ended,
                     weir_error_name(t.error), weir_error_name(t.at), t.text);
    }
}

/* Every word from which addresses in a table are computed, while it is in use. */
static void bend_the_table(struct trial *t, void *arg)
{
    static const uint64_t words[] = {0,    1,         8, UINT64_MAX, INT64_MAX, UINT64_C(1) << 40,
                                     4096, UINT32_MAX};
    struct live l;
    uint64_t *at;

    (void)arg;
    live_open(&l);
    at = (uint64_t *)(void *)(l.file.at + atomic_load(&l.header->table[0].at));
    for (size_t i = 0; i < WEIR__TABLE_HEADER / 8; i++) {
        const uint64_t was = at[i];

        t->at = (int)i;
        for (size_t k = 0; k < LENGTH(words); k++) {
            at[i] = words[k];
            t->error = take_of(&l);
            if (t->error != 0)
                return;
        }
        at[i] = was;
    }
}

static void a_table_in_use_cannot_be_bent(void **state)
{
    const struct trial t = trial_run(bend_the_table, NULL);

    (void)state;
    if (t.ended != 0 || t.error != 0)
        fail_msg("word %d: ended %d, %s", t.at, t.ended, weir_error_name(t.error));
}

/* ---- An owner in use ------------------------------------------------------------------------- */

static void miscount(struct trial *t, void *arg)
{
    static const uint64_t counts[] = {1, 2, 15, 16, 17, UINT64_MAX, INT64_MAX, UINT64_C(1) << 40};
    struct weir__journal *j;
    struct live l;

    (void)arg;
    live_open(&l);
    j = (void *)(l.file.at + l.header->journals_at);
    for (size_t i = 0; i < LENGTH(counts); i++) {
        t->at = (int)i;
        for (int owner = 0; owner < WEIR__FILE_OWNERS; owner++)
            atomic_store(&j[owner].notes, counts[i]);
        t->error = take_of(&l);
        if (t->error != 0 || atomic_load(&j[0].notes) != 0)
            _exit(4);
    }
    weir_close(l.w);
}

static void a_count_of_notes_that_cannot_be_crashes_no_process(void **state)
{
    const struct trial t = trial_run(miscount, NULL);

    (void)state;
    trial_ended(&t);
}

/* ---- The clock ------------------------------------------------------------------------------- */

static const int64_t NO_TIMES[] = {INT64_MIN,     INT64_MIN + 1,    INT64_MAX,
                                   INT64_MAX - 1, INT64_C(1) << 62, -(INT64_C(1) << 62)};

/* A process that has its time goes on with it. */
static void take_in_odd_times(struct trial *t, void *arg)
{
    struct live l;

    (void)arg;
    live_open(&l);
    for (size_t i = 0; i < LENGTH(NO_TIMES); i++) {
        const struct weir_request rq = weir_request_of(l.p, "now", 3);
        struct weir_verdict v;

        atomic_store(&l.header->offset_ns, NO_TIMES[i]);
        atomic_store(&l.header->stamp_ns, NO_TIMES[i]);
        t->error = weir_take(l.w, &rq, &v);
        if (t->error != 0 || !v.allowed)
            _exit(4);
    }
}

static void a_clock_that_is_damaged_later_crashes_no_process(void **state)
{
    const struct trial t = trial_run(take_in_odd_times, NULL);

    (void)state;
    trial_ended(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_at_another_address_is_refused),
        cmocka_unit_test(a_live_header_moves_nothing),
        cmocka_unit_test(a_table_in_use_cannot_be_bent),
        cmocka_unit_test(a_count_of_notes_that_cannot_be_crashes_no_process),
        cmocka_unit_test(a_clock_that_is_damaged_later_crashes_no_process),
    };

    return trials_main("store-damage-in-use", tests, LENGTH(tests));
}
