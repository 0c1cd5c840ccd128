/* Processes that share a file share its time, over reboots too, and its law: together they are
 * granted no more than one of them alone would be.
 */
#include "trial.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "table/probe.h"

#define EACH      8 /* processes */
#define BURST     50
#define TOKEN_NS  (SECOND / 1000)
#define DECISIONS (UNDER_ASAN ? 3000 : 20000) /* of each process */
#define KEYS_MOST 1000

/* What processes share beside the file. */
struct yard {
    _Atomic int gate;
    _Atomic int64_t now_ns;
    _Atomic int64_t granted[KEYS_MOST];
};

static struct yard *yard_open(void)
{
    struct yard *y = trial_shared(sizeof *y);

    atomic_store(&y->now_ns, T0);
    return y;
}

/* ---- Reboots --------------------------------------------------------------------------------- */

static int64_t wall_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

/* Opens the sound file as of another boot that last saw the time stamp_ns. */
static int64_t now_after_reboot(int64_t stamp_ns, int64_t *still_used)
{
    struct image image = trial_copy();
    struct weir_policy *p;
    struct weir *w;
    int64_t now;

    trial_header(&image)->boot_id[3] ^= 5;
    atomic_store(&trial_header(&image)->stamp_ns, stamp_ns);
    atomic_store(&trial_header(&image)->offset_ns, INT64_C(12345));
    w = trial_store("rebooted", &image);
    now = weir_now(w);
    p = weir_policy_find(w, "p");
    assert_non_null(p);
    *still_used = trial_used(w, p, "used");
    weir_close(w);
    image_free(&image);
    return now;
}

static void time_never_goes_back_over_a_reboot(void **state)
{
    const int64_t wall = wall_ns(), ahead = wall + 3600 * SECOND, behind = wall - 86400 * SECOND;
    int64_t still;

    (void)state;
    assert_true(now_after_reboot(ahead, &still) >= ahead);
    assert_int_equal(still, 3);
    assert_true(now_after_reboot(behind, &still) >= wall - SECOND);
    assert_true(now_after_reboot(behind, &still) <= wall_ns() + 10 * SECOND);
    assert_int_equal(still, 3);
}

static void processes_that_open_a_file_have_its_time(void **state)
{
    struct weir *w = trial_engine("time", NULL, NULL);

    (void)state;
    assert_non_null(w);
    for (int i = 0; i < 20; i++) {
        const int64_t before = weir_now(w);
        int pipes[2];
        int64_t there = 0;
        pid_t child;

        assert_int_equal(pipe(pipes), 0);
        child = fork();
        if (child == 0) {
            there = weir_now(w);
            _exit(write(pipes[1], &there, sizeof there) != sizeof there);
        }
        assert_int_equal(read(pipes[0], &there, sizeof there), sizeof there);
        trial_went_well(child);
        (void)close(pipes[0]);
        (void)close(pipes[1]);
        assert_true(there >= before - SECOND / 1000);
        assert_true(there <= weir_now(w) + SECOND / 1000);
    }
    weir_close(w);
}

/* ---- Policies -------------------------------------------------------------------------------- */

#define CHANGING_NS (SECOND / 4)

/* All versions of a record while others read them, as if each were being written over: of its bytes
 * the one that does most harm changes to and fro. */
static void change_and_change(const char *name)
{
    char path[FOLDER_PATH];
    struct image_file f;
    struct weir__record *r;

    (void)alarm(TRIAL_HANG_S);
    folder_path(path, name);
    f = image_open(path);
    r = ((struct weir__directory *)(void *)(f.at +
                                            ((struct weir__header *)(void *)f.at)->directory_at))
            ->record;
    for (uint32_t i = 1; i <= WEIR__VERSIONS_KEPT; i++)
        *weir__record_version(r, atomic_load(&r->head.generation), i) =
            *weir__record_version(r, atomic_load(&r->head.generation), 0);
    atomic_store(&r->head.first, 0);
    for (unsigned turn = 0;; turn++) {
        for (uint32_t i = 0; i <= WEIR__VERSIONS_KEPT; i++)
            *(volatile int64_t *)&r->version[i].n = turn % 2 ? 1 : WEIR_TERMS_MAX;
        atomic_fetch_add(&r->head.generation, turn % 4096 == 0);
    }
}

static void a_policy_may_change_while_others_read_it(void **state)
{
    struct weir_policy *p;
    struct weir *w = trial_engine("changing", &p, "token-bucket 1000/s");
    const int64_t end = wall_ns() + CHANGING_NS;
    const struct weir_request rq = weir_request_of(p, "key", 3);
    struct weir_verdict v;
    pid_t child;

    (void)state;
    child = fork();
    if (child == 0)
        change_and_change("changing");
    while (wall_ns() < end) {
        const int error = weir_take_at(w, &rq, T0, &v);

        assert_true(error == 0 || error == WEIR_EFORMAT); /* it never stood still */
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    weir_close(w);
}

/* ---- Holders that stand still ---------------------------------------------------------------- */

/* The lock of the bucket that a key is in, of the file's first table. */
static struct weir__lock *lock_of(const char *name, uint64_t fingerprint)
{
    const struct weir__table *t;
    char path[FOLDER_PATH];
    struct image_file f;

    folder_path(path, name);
    f = image_open(path);
    t = (const void *)(f.at + atomic_load(&((struct weir__header *)(void *)f.at)->table[0].at));
    for (uint64_t i = 0; i < t->buckets_max; i++)
        if (weir__bucket_find(t, weir__bucket_at(t, i), fingerprint) < t->places)
            return &weir__bucket_at(t, i)->lock;
    fail_msg("the key is nowhere");
    return NULL;
}

/* A process that stands still, and is the owner after ours. */
static pid_t stop_one(struct weir *w, struct weir_policy *p)
{
    const pid_t child = fork();

    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)trial_take(w, p, "other");
        (void)raise(SIGSTOP);
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, WUNTRACED), child);
    return child;
}

static void a_cancel_that_failed_half_way_gives_back_once(void **state)
{
    struct weir_policy *p;
    struct weir *w = trial_engine("half way", &p, "token-bucket 1/h burst=3");
    const struct weir_request rq[] = {{p, "a", 1, 2, WEIR_FOREVER}, {p, "b", 1, 2, WEIR_FOREVER}};
    struct weir_reservation r[2];
    struct weir_verdict before, v;
    struct weir__lock *lock;
    int64_t back = -1;
    pid_t child;

    (void)state;
    assert_int_equal(weir_reserve_at(w, rq, 2, T0, &r[0], &v), 0);
    child = stop_one(w, p);
    assert_int_equal(weir_peek_at(w, rq, T0, &before), 0);
    assert_int_equal(weir_reserve_at(w, rq, 2, T0, &r[1], &v), 0);
    assert_true(v.allowed && v.wait_ns > 0);
    lock = lock_of("half way", r[1].term[1].fingerprint);
    assert_ptr_not_equal(lock, lock_of("half way", r[1].term[0].fingerprint));
    atomic_store(&lock->holder, 2);
    assert_int_equal(weir_cancel_at(w, &r[1], T0, &back), WEIR_EBUSY);
    assert_int_equal(back, -1);
    atomic_store(&lock->holder, 0);
    assert_int_equal(weir_cancel_at(w, &r[1], T0, &back), 0);
    assert_int_equal(back, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weir_peek_at(w, &rq[i], T0, &v), 0);
        assert_int_equal(v.wait_ns, before.wait_ns);
    }
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    weir_close(w);
}

static void a_batch_that_failed_says_which_were_not_decided(void **state)
{
    struct weir_policy *p;
    struct weir *w = trial_engine("batch", &p, "fixed-window 100/1h");
    struct weir_request rq[70];
    struct weir_verdict v[70];
    struct weir_reservation r;
    struct weir__lock *lock;
    pid_t child;

    (void)state;
    for (int i = 0; i < 70; i++)
        rq[i] = weir_request_of(p, i == 1 ? "busy" : i == 2 ? "after" : "key", 4);
    assert_int_equal(weir_reserve_at(w, &rq[1], 1, T0, &r, v), 0);
    child = stop_one(w, p);
    lock = lock_of("batch", r.term[0].fingerprint);
    atomic_store(&lock->holder, 2);
    memset(v, 0x5a, sizeof v);
    assert_int_equal(weir_take_many_at(w, rq, 70, T0, v), WEIR_EBUSY);
    assert_true(v[0].allowed && v[0].limit == 100 && v[0].remaining == 99);
    for (int k = 1; k < 70; k++)
        assert_int_equal(v[k].limit, -1);
    atomic_store(&lock->holder, 0);
    assert_int_equal(weir_take_many_at(w, rq, 70, T0, v), 0);
    assert_int_equal(v[1].remaining, 98);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    weir_close(w);
}

/* ---- The law --------------------------------------------------------------------------------- */

/* Asks at a time that every call moves on. */
static int take_and_take(struct yard *y, const char *name, int self, int keys)
{
    unsigned random_state = (unsigned)self * 2654435761u + 1;
    struct weir_policy *p;
    struct weir *w = trial_engine(name, &p, "token-bucket 1000/s burst=50");

    if (!w)
        return 1;
    (void)alarm(120);
    trial_meet(&y->gate, EACH);
    for (int i = 0; i < DECISIONS; i++) {
        const int key = (int)((random_state = random_state * 1664525u + 1013904223u) >> 8) % keys;
        const struct weir_request rq = {p, &key, sizeof key, 1, 0};
        struct weir_verdict v;
        int error;

        do
            error = weir_take_at(w, &rq, atomic_fetch_add(&y->now_ns, TOKEN_NS / 20), &v);
        while (error == WEIR_EBUSY);
        if (error != 0)
            return 2;
        if (v.allowed)
            atomic_fetch_add(&y->granted[key], 1);
    }
    return 0;
}

static void share_keys(const char *name, int keys)
{
    struct yard *y = yard_open();
    int64_t bound, total = 0;
    pid_t child[EACH];

    for (int i = 0; i < EACH; i++) {
        child[i] = fork();
        if (child[i] == 0)
            _exit(take_and_take(y, name, i, keys));
    }
    for (int i = 0; i < EACH; i++)
        trial_went_well(child[i]);
    bound = BURST + (y->now_ns - T0) / TOKEN_NS;
    for (int i = 0; i < keys; i++) {
        assert_in_range(y->granted[i], 0, bound);
        total += y->granted[i];
    }
    if (keys == 1) /* never idle: and none too few */
        assert_in_range(total, bound - EACH, bound);
    (void)munmap(y, sizeof *y);
}

static void eight_processes_at_one_key_get_what_the_law_allows(void **state)
{
    (void)state;
    share_keys("one", 1);
}

static void eight_processes_at_ten_keys_get_what_the_law_allows(void **state)
{
    (void)state;
    share_keys("ten", 10);
}

static void eight_processes_at_many_keys_get_what_the_law_allows(void **state)
{
    (void)state;
    share_keys("many", KEYS_MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_never_goes_back_over_a_reboot),
        cmocka_unit_test(processes_that_open_a_file_have_its_time),
        cmocka_unit_test(a_policy_may_change_while_others_read_it),
        cmocka_unit_test(a_batch_that_failed_says_which_were_not_decided),
        cmocka_unit_test(a_cancel_that_failed_half_way_gives_back_once),
        cmocka_unit_test(eight_processes_at_one_key_get_what_the_law_allows),
        cmocka_unit_test(eight_processes_at_ten_keys_get_what_the_law_allows),
        cmocka_unit_test(eight_processes_at_many_keys_get_what_the_law_allows),
    };

    return trials_main("store-together", tests, LENGTH(tests));
}
