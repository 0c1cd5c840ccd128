/* Processes that share a file share its time, over reboots too, and its law: nobody is granted more than
 * one of them alone would be.
 */
#include "trial.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

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

/* ---- Reboots ----------------------------------------------------------------------------------- */

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

static void all_who_open_a_file_have_its_time(void **state)
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

/* ---- The law ----------------------------------------------------------------------------------- */

/* Asks at a time that every call moves on. */
static int take_and_take(struct yard *y, const char *name, int self, int keys)
{
    unsigned dice = (unsigned)self * 2654435761u + 1;
    struct weir_policy *p;
    struct weir *w = trial_engine(name, &p, "token-bucket 1000/s burst=50");

    if (!w)
        return 1;
    (void)alarm(120);
    trial_meet(&y->gate, EACH);
    for (int i = 0; i < DECISIONS; i++) {
        const int key = (int)((dice = dice * 1664525u + 1013904223u) >> 8) % keys;
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
        cmocka_unit_test(all_who_open_a_file_have_its_time),
        cmocka_unit_test(eight_processes_at_one_key_get_what_the_law_allows),
        cmocka_unit_test(eight_processes_at_ten_keys_get_what_the_law_allows),
        cmocka_unit_test(eight_processes_at_many_keys_get_what_the_law_allows),
    };

    return trials_main("store-together", tests, LENGTH(tests));
}
