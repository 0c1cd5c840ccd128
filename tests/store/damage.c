/* Damage that an open cannot see: in the part of the header that changes, in the directory, in
 * journals and in tables. Damaged data may be lost, or answered with an error; no process crashes,
 * and none hangs. damage_in_use.c damages a file that is open.
 */
#include "trial.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"
#include "table/layout.h"

static uint64_t random_state = 20240101;

static uint64_t roll(void)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return random_state >> 16;
}

static void scribble(void *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((char *)at)[i] = (char)roll();
}

/* ---- In a child ------------------------------------------------------------------------------ */

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

/* ---- The header ------------------------------------------------------------------------------ */

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

static void a_changed_byte_of_the_header_crashes_no_process(void **state)
{
    size_t step = UNDER_ASAN ? 7 : 1;
    struct trial t = trial_run(try_every_byte, &step);

    (void)state;
    trial_ended(&t);
}

/* A process that is killed between allocating a table and recording it loses room in the file.
 * However much that is, a table after it is not mapped over what follows the file's own
 * addresses. */
static void a_file_longer_than_it_can_be_crashes_no_process(void **state)
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

/* ---- The directory --------------------------------------------------------------------------- */

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

static void a_directory_of_garbage_crashes_no_process(void **state)
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

/* ---- Tables ---------------------------------------------------------------------------------- */

static char *table_of(struct image *i)
{
    return i->at + atomic_load(&trial_header(i)->table[0].at);
}

static size_t buckets_bytes(struct image *i)
{
    const struct weir__table *t = (const struct weir__table *)(const void *)table_of(i);

    return t->buckets_max * t->bucket_bytes;
}

static void buckets_of_garbage_crash_no_process(void **state)
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

/* As a machine that loses power leaves them: the page with the lock was written, the journal was
 * not. */
static void a_lock_without_a_live_owner_is_free(void **state)
{
    static const uint32_t holders[] = {
        1, 2, 3, 500, WEIR__FILE_OWNERS, WEIR__FILE_OWNERS + 1, UINT32_MAX};

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

static void a_changed_byte_of_a_tables_header_crashes_no_process(void **state)
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

/* ---- Journals -------------------------------------------------------------------------------- */

static void journals_of_garbage_crash_no_process(void **state)
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

/* What a dead owner's journal names need not be a lock: only locks are dropped, even if another
 * word happens to equal its number. */
static void a_journal_that_names_no_lock_drops_nothing(void **state)
{
    struct image image = trial_copy();
    struct weir__header *h = trial_header(&image);
    struct weir__journal *j = (void *)(image.at + h->journals_at);
    struct trial t;
    char path[FOLDER_PATH];
    struct image_file f;

    (void)state;
    atomic_store(&h->recovered, 6);
    atomic_store(&j[5].lock_at[0], offsetof(struct weir__header, recovered));
    t = try_image(&image);
    trial_ended(&t);
    folder_path(path, "damaged");
    f = image_open(path);
    assert_int_equal(((struct weir__header *)(void *)f.at)->recovered, 6);
    image_close(&f);
    image_free(&image);
}

static void look_at_used(struct trial *t, void *name)
{
    char store[FOLDER_PATH];
    const struct weir_options o = {.store = store};
    struct weir *w;

    folder_store(store, name);
    t->error = weir_open(&w, &o, NULL);
    if (t->error)
        return;
    t->at = (int)trial_used(w, weir_policy_find(w, "p"), "used");
    weir_close(w);
}

/* Notes of an entry whose bucket the owner has not locked belong to a decision that is over:
 * undoing it would forgive what was charged since. */
static void a_stale_note_gives_nothing_back(void **state)
{
    struct image image = trial_copy();
    struct weir__header *h = trial_header(&image);
    struct weir__journal *j = (void *)(image.at + h->journals_at);
    const struct weir__table *table = (const void *)table_of(&image);
    struct trial t;

    (void)state;
    for (uint64_t b = 0; b < table->buckets_max; b++)
        for (uint64_t place = 0; place < table->places; place++) {
            const struct weir__bucket *at = weir__bucket_at(table, b);

            if (weir__bucket_get(at, place) == 0)
                continue;
            j[7].note[0] =
                (struct weir__note){(uint64_t)((const char *)&at->fingerprint[place] - image.at),
                                    weir__bucket_get(at, place),
                                    (uint64_t)((char *)weir__state_at(table, at, place) - image.at),
                                    (uint64_t)((char *)j[7].saved - image.at), 16};
            atomic_store(&j[7].notes, 1);
        }
    assert_int_equal(j[7].notes, 1);
    trial_write("damaged", image.at, image.bytes);
    t = trial_run(look_at_used, (void *)(uintptr_t) "damaged");
    trial_ended(&t);
    assert_int_equal(t.at, 3);
    image_free(&image);
}

/* ---- The clock ------------------------------------------------------------------------------- */

static const int64_t NO_TIMES[] = {INT64_MIN,     INT64_MIN + 1,    INT64_MAX,
                                   INT64_MAX - 1, INT64_C(1) << 62, -(INT64_C(1) << 62)};

static void a_clock_out_of_range_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(NO_TIMES); i++)
        for (int stamp = 0; stamp < 2; stamp++) {
            struct image image = trial_copy();
            struct weir__header *h = trial_header(&image);
            struct trial t;

            if (stamp) {
                atomic_store(&h->stamp_ns,
                             NO_TIMES[i] == INT64_C(1) << 62 ? INT64_MAX : NO_TIMES[i]);
                h->boot_id[0] ^= 1;
            } else {
                atomic_store(&h->offset_ns, NO_TIMES[i]);
            }
            trial_write("damaged", image.at, image.bytes);
            t = trial_open("damaged");
            trial_refused(&t, WEIR_EFORMAT, "/damaged", "its clock is out of range");
            image_free(&image);
        }
}

/* ---- Terms that no text gives ---------------------------------------------------------------- */

/* Numbers that would divide by zero, run out of a state, or never end, under a correct check word:
 * a process that can write the file can write that too. */
static const struct forged {
    const char *what;
    size_t at; /* in the term */
    int64_t value;
} FORGED[] = {
    {"a count of 0", offsetof(struct weir_term, count), 0},
    {"a count below 0", offsetof(struct weir_term, count), -1},
    {"a count of 2^62", offsetof(struct weir_term, count), INT64_C(1) << 62},
    {"a period of 0", offsetof(struct weir_term, period_ns), 0},
    {"a period below 0", offsetof(struct weir_term, period_ns), INT64_MIN},
    {"a period beyond all", offsetof(struct weir_term, period_ns), INT64_MAX},
    {"slots of another algorithm", offsetof(struct weir_term, slots), 1000},
    {"a burst of another algorithm", offsetof(struct weir_term, burst), INT64_MAX},
    {"a window of another algorithm", offsetof(struct weir_term, window_ns), 1},
    {"an unknown algorithm", offsetof(struct weir_term, algorithm), 99},
    {"an algorithm with no slots", offsetof(struct weir_term, algorithm), WEIR_SLIDING_WINDOW},
    {"an algorithm with no warmup", offsetof(struct weir_term, algorithm), WEIR_SMOOTH_WARMUP},
    {"an unknown calendar", offsetof(struct weir_term, calendar), 77},
    {"a calendar that is not aligned", offsetof(struct weir_term, calendar), WEIR_MONTH},
    {"a clock without a zone", offsetof(struct weir_term, align), WEIR_ALIGN_CLOCK},
    {"an unknown fallback", offsetof(struct weir_term, fallback), 77},
};

static void resign(struct weir__version *v)
{
    const uint64_t key[2] = {0};

    v->check = weir__hash(v, offsetof(struct weir__version, check), key);
}

static void expect_refused(struct image *image, const char *what)
{
    struct trial t;

    trial_write("damaged", image->at, image->bytes);
    t = trial_run(find_and_compare, (void *)(uintptr_t) "damaged");
    if (t.ended != 0 || t.error != WEIR_EFORMAT)
        fail_msg("%s: ended %d, %s: %s", what, t.ended, weir_error_name(t.error), t.text);
    image_free(image);
}

static struct weir__version *version_of(struct image *i)
{
    struct weir__record *r = record_of(i);

    return weir__record_version(r, atomic_load(&r->head.generation), 0);
}

static void a_limit_that_no_text_gives_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(FORGED); i++) {
        struct image image = trial_copy();
        struct weir__version *v = version_of(&image);
        char *at = (char *)&v->term[0] + FORGED[i].at;

        if (FORGED[i].at < offsetof(struct weir_term, count))
            *(int *)(void *)at = (int)FORGED[i].value;
        else
            *(int64_t *)(void *)at = FORGED[i].value;
        resign(v);
        expect_refused(&image, FORGED[i].what);
    }
}

static void a_past_that_cannot_be_is_refused(void **state)
{
    static const struct weir__past pasts[] = {
        {0, 1, 1, 1, 0, 0, 0},          {UINT32_MAX, 1, 1, 1, 0, 0, 0},
        {1, UINT32_MAX, 1, 1, 0, 0, 0}, {1, 1, -1, 1, 0, 0, 0},
        {1, 1, 1, INT64_MAX, 0, 0, 0},  {1, 1, 1, INT64_MIN, 0, 0, 0},
        {1, 1, 1, 1, INT64_MIN, 0, 0},  {1, 1, 1, 1, 0, -1, 0},
        {1, 1, 1, 1, 0, 0, -1},         {1, 1, 1, 1, 0, 0, INT64_MAX},
    };

    (void)state;
    for (size_t i = 0; i < LENGTH(pasts); i++) {
        struct image image = trial_copy();
        struct weir__version *v = version_of(&image);

        v->past[0] = pasts[i];
        resign(v);
        expect_refused(&image, "a past");
    }
}

/* Also for an unfinished name: it belongs to no policy. */
static void a_name_without_an_end_belongs_to_no_policy(void **state)
{
    struct image image = trial_copy();
    struct trial t;

    (void)state;
    memset(record_of(&image)->name, 'p', WEIR_NAME_MAX);
    t = try_image(&image);
    trial_ended(&t);
    image_free(&image);
}

/* A caller that asks for one policy after the other comes to an end. */
static void two_policies_of_one_name_are_one(void **state)
{
    struct image image = trial_copy();
    struct trial t;

    (void)state;
    memcpy((void *)&directory_of(&image)->record[1], record_of(&image),
           sizeof(struct weir__record));
    t = try_image(&image);
    trial_ended(&t);
    image_free(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_changed_byte_of_the_header_crashes_no_process),
        cmocka_unit_test(a_file_longer_than_it_can_be_crashes_no_process),
        cmocka_unit_test(a_damaged_record_is_refused_or_as_it_was),
        cmocka_unit_test(a_directory_of_garbage_crashes_no_process),
        cmocka_unit_test(buckets_of_garbage_crash_no_process),
        cmocka_unit_test(a_lock_without_a_live_owner_is_free),
        cmocka_unit_test(a_changed_byte_of_a_tables_header_crashes_no_process),
        cmocka_unit_test(journals_of_garbage_crash_no_process),
        cmocka_unit_test(a_journal_that_names_no_lock_drops_nothing),
        cmocka_unit_test(a_stale_note_gives_nothing_back),
        cmocka_unit_test(a_clock_out_of_range_is_refused),
        cmocka_unit_test(a_limit_that_no_text_gives_is_refused),
        cmocka_unit_test(a_past_that_cannot_be_is_refused),
        cmocka_unit_test(a_name_without_an_end_belongs_to_no_policy),
        cmocka_unit_test(two_policies_of_one_name_are_one),
    };

    return trials_main("store-damage", tests, LENGTH(tests));
}
