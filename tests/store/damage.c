/* Damage that an open cannot see, or that comes later: in the part of the header that changes, in the
 * directory, in journals and in tables. What was damaged may be lost, or answered with an error; nobody
 * crashes, and nobody hangs.
 */
#include "trial.h"

#include <stdlib.h>
#include <unistd.h>

#include "table/layout.h"

static uint64_t dice = 20240101;

static uint64_t roll(void)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return dice >> 16;
}

static void scribble(void *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((char *)at)[i] = (char)roll();
}

/* ---- In a child -------------------------------------------------------------------------------- */

/* Every kind of decision, on many keys. Errors are answers here. */
static void decide_a_lot(struct weir *w, struct weir_policy *p)
{
    struct weir_reservation r;
    struct weir_request rq[3];
    struct weir_verdict v[3];
    struct weir_stats stats;

    for (int i = 0; i < 60; i++) {
        for (int k = 0; k < 3; k++) {
            rq[k] = weir_request_of(p, &i, sizeof i - (size_t)k);
            rq[k].patience_ns = i % 2 ? WEIR_FOREVER : 0;
        }
        (void)weir_take_at(w, &rq[0], T0 + i, v);
        (void)weir_peek_at(w, &rq[1], T0 + i, v);
        (void)weir_take_all_at(w, rq, 3, T0 + i, v);
        (void)weir_take_many_at(w, rq, 3, T0 + i, v);
        (void)weir_refund_at(w, &rq[0], T0 + i, NULL);
        if (weir_reserve_at(w, rq, 2, T0 + i, &r, v) == 0)
            (void)weir_cancel_at(w, &r, T0 + i, NULL);
        if (i % 4 == 0)
            (void)weir_reset_at(w, &rq[2], T0 + i);
    }
    (void)weir_stats_at(w, T0, &stats);
}

static void use_all(struct weir *w, struct trial *t)
{
    for (struct weir_policy *p = NULL; (p = weir_policy_next(w, p)) != NULL;)
        decide_a_lot(w, p);
    t->error = weir_policy_set_at(w, "new", "sliding-log 20/1h", T0, NULL, NULL);
}

static void open_and_use(struct trial *t, void *name)
{
    char store[FOLDER_PATH];
    const struct weir_options o = {.store = store};
    struct weir_diag why = {0};
    struct weir *w;

    folder_store(store, name);
    t->error = weir_open(&w, &o, &why);
    (void)snprintf(t->text, sizeof t->text, "%s", why.text);
    if (t->error != 0)
        return;
    use_all(w, t);
    weir_close(w);
}

static struct trial try_image(const struct image *i)
{
    trial_write("damaged", i->at, i->bytes);
    return trial_run(open_and_use, (void *)(uintptr_t) "damaged");
}

/* ---- The header -------------------------------------------------------------------------------- */

/* In one child, as there are many of them: its report says where it was when it died. */
static void try_every_byte(struct trial *t, void *arg)
{
    const size_t step = *(size_t *)arg;
    struct image image = trial_copy();

    for (size_t at = 0; at < WEIR__FILE_PAGE; at += at < sizeof(struct weir__header) ? step : 97) {
        const char was = image.at[at];

        t->at = (int)at;
        image.at[at] = (char)(was ^ (char)(1 << roll() % 8));
        trial_write("damaged", image.at, image.bytes);
        (void)alarm(TRIAL_HANG_S);
        open_and_use(t, (void *)(uintptr_t) "damaged");
        if (t->error != 0 && at < offsetof(struct weir__header, ready) && t->text[0] == '\0')
            _exit(3);
        image.at[at] = was;
    }
}

static void a_changed_byte_of_the_header_crashes_nobody(void **state)
{
    size_t step = UNDER_ASAN ? 7 : 1;
    struct trial t = trial_run(try_every_byte, &step);

    (void)state;
    trial_ended(&t);
}

/* Who is killed between allocating a table and saying so loses room in the file. However much that is, a
 * table behind it is not mapped over what lies behind the file's own addresses. */
static void a_file_longer_than_it_can_be_crashes_nobody(void **state)
{
    static const uint64_t sizes[] = {UINT64_C(1) << 30, UINT64_C(5) << 30};

    (void)state;
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        struct image image = trial_copy();
        char path[FOLDER_PATH];
        struct trial t;

        atomic_store(&trial_header(&image)->bytes, sizes[i]);
        trial_write("damaged", image.at, image.bytes);
        folder_path(path, "damaged");
        assert_int_equal(truncate(path, (off_t)sizes[i]), 0);
        t = trial_run(open_and_use, (void *)(uintptr_t) "damaged");
        trial_ended(&t);
        assert_int_not_equal(t.error, 0); /* refused at open, or when the table is to be made */
        image_free(&image);
    }
}

/* ---- The directory ----------------------------------------------------------------------------- */

static struct weir__directory *directory_of(struct image *i)
{
    return (struct weir__directory *)(void *)(i->at + trial_header(i)->directory_at);
}

static struct weir__record *record_of(struct image *i)
{
    return &directory_of(i)->record[0];
}

/* The policy is refused with a message, or it is what it was. */
static void find_and_compare(struct trial *t, void *name)
{
    char store[FOLDER_PATH];
    const struct weir_options o = {.store = store};
    struct weir_limit is, was;
    struct weir_diag why = {0};
    struct weir_policy *p = NULL;
    struct weir *w;

    folder_store(store, name);
    if (weir_open(&w, &o, &why) != 0)
        return;
    t->error = weir_policy_set_at(w, "p", "fixed-window 10/1h", T0, &p, &why);
    (void)snprintf(t->text, sizeof t->text, "%s", why.text);
    if (t->error == 0) {
        (void)weir_limit_parse(&was, "fixed-window 10/1h", NULL);
        weir_policy_limit(p, &is);
        if (memcmp(&is, &was, sizeof is) != 0)
            t->at = -1;
        decide_a_lot(w, p);
    } else if (why.text[0] == '\0') {
        t->at = -2;
    }
    weir_close(w);
}

static void a_damaged_record_is_refused_or_as_it_was(void **state)
{
    const size_t step = UNDER_ASAN ? 211 : 41;

    (void)state;
    for (size_t at = 0; at < sizeof(struct weir__record); at += 1 + roll() % step) {
        struct image image = trial_copy();
        struct trial t;

        ((char *)record_of(&image))[at] ^= (char)(1 << roll() % 8);
        trial_write("damaged", image.at, image.bytes);
        t = trial_run(find_and_compare, (void *)(uintptr_t) "damaged");
        if (t.ended != 0 || t.at != 0)
            fail_msg("byte %zu of the record: ended %d, %d, %s", at, t.ended, t.at, t.text);
        image_free(&image);
    }
}

static void a_directory_of_garbage_crashes_nobody(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        struct image image = trial_copy();
        struct trial t;

        scribble(record_of(&image), (size_t)2 * sizeof(struct weir__record));
        if (i % 2)
            memset(record_of(&image)->name, 0, 8);
        t = try_image(&image);
        trial_ended(&t);
        image_free(&image);
    }
}

/* ---- Tables ------------------------------------------------------------------------------------ */

static char *table_of(struct image *i)
{
    return i->at + atomic_load(&trial_header(i)->table[0].at);
}

static size_t buckets_bytes(struct image *i)
{
    const struct weir__table *t = (const struct weir__table *)(const void *)table_of(i);

    return t->buckets_max * t->bucket_bytes;
}

static void buckets_of_garbage_crash_nobody(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct image image = trial_copy();
        struct trial t;

        scribble(table_of(&image) + WEIR__TABLE_HEADER, buckets_bytes(&image));
        t = try_image(&image);
        trial_ended(&t);
        image_free(&image);
    }
}

/* As a machine that loses power leaves them: the page with the lock was written, the journal was not. */
static void a_lock_that_nobody_holds_is_nobodys(void **state)
{
    static const uint32_t holders[] = {1,         2, 3, 500, WEIR__FILE_SEATS, WEIR__FILE_SEATS + 1,
                                       UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < LENGTH(holders); i++) {
        struct image image = trial_copy();
        const struct weir__table *t = (const struct weir__table *)(const void *)table_of(&image);
        struct trial trial;

        for (uint64_t b = 0; b < t->buckets_max; b++)
            atomic_store(&weir__bucket_at(t, b)->lock.holder, holders[i]);
        trial = try_image(&image);
        if (trial.ended != 0)
            fail_msg("held by %u: %s", holders[i], strsignal(trial.ended));
        image_free(&image);
    }
}

static void a_changed_byte_of_a_tables_header_crashes_nobody(void **state)
{
    (void)state;
    for (size_t at = 0; at < sizeof(struct weir__table);
         at += at < offsetof(struct weir__table, stretch) && !UNDER_ASAN ? 1 : 31) {
        struct image image = trial_copy();
        struct trial t;

        table_of(&image)[at] ^= (char)(1 << roll() % 8);
        t = try_image(&image);
        if (t.ended != 0)
            fail_msg("byte %zu of the table: %s", at, strsignal(t.ended));
        image_free(&image);
    }
}

/* ---- Journals ---------------------------------------------------------------------------------- */

static void journals_of_garbage_crash_nobody(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        struct image image = trial_copy();
        struct weir__journal *j = (void *)(image.at + trial_header(&image)->journals_at);
        struct trial t;

        scribble(j, 8 * sizeof *j);
        for (int k = 0; k < 8; k++) {
            atomic_store(&j[k].notes, roll() % (WEIR_TERMS_MAX + 1));
            for (int n = 0; n < WEIR_TERMS_MAX && i % 2; n++) { /* offsets that could be true */
                j[k].note[n].fingerprint_at = roll() % (2 * image.bytes) & ~UINT64_C(7);
                j[k].note[n].state_at = roll() % (2 * image.bytes) & ~UINT64_C(7);
                j[k].note[n].saved_at = roll() % (2 * image.bytes) & ~UINT64_C(7);
                j[k].note[n].state_bytes = 16;
            }
            for (int n = 0; n < WEIR__JOURNAL_LOCKS && i % 2; n++)
                atomic_store(&j[k].lock_at[n], roll() % (2 * image.bytes) & ~UINT64_C(3));
        }
        t = try_image(&image);
        if (t.ended != 0)
            fail_msg("round %d: %s", i, strsignal(t.ended));
        image_free(&image);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_changed_byte_of_the_header_crashes_nobody),
        cmocka_unit_test(a_file_longer_than_it_can_be_crashes_nobody),
        cmocka_unit_test(a_damaged_record_is_refused_or_as_it_was),
        cmocka_unit_test(a_directory_of_garbage_crashes_nobody),
        cmocka_unit_test(buckets_of_garbage_crash_nobody),
        cmocka_unit_test(a_lock_that_nobody_holds_is_nobodys),
        cmocka_unit_test(a_changed_byte_of_a_tables_header_crashes_nobody),
        cmocka_unit_test(journals_of_garbage_crash_nobody),
    };

    return trials_main("store-damage", tests, LENGTH(tests));
}
