/* Many processes and threads at one file: all come in, none is locked out, and nobody is granted more than
 * the law allows.
 */
#include "trial.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EACH      8 /* processes */
#define ROUNDS    (UNDER_ASAN ? 40 : 200)
#define BURST     50
#define TOKEN_NS  (SECOND / 1000)
#define DECISIONS (UNDER_ASAN ? 3000 : 20000) /* of each process */
#define KEYS_MOST 1000

/* What processes share beside the file. */
struct yard {
    _Atomic int waiting, errors;
    _Atomic int64_t now_ns;
    _Atomic int64_t granted[KEYS_MOST];
};

static struct yard *yard_open(void)
{
    struct yard *y =
        mmap(NULL, sizeof *y, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(y, MAP_FAILED);
    atomic_store(&y->now_ns, T0);
    return y;
}

static void meet(struct yard *y, int n)
{
    atomic_fetch_add(&y->waiting, 1);
    while (atomic_load(&y->waiting) < n)
        (void)sched_yield();
}

static struct weir *open_named(const char *name, struct weir_policy **p, const char *limit)
{
    char store[FOLDER_PATH];
    const struct weir_options o = {.store = store, .max_keys = 2000, .max_policies = 4};
    struct weir *w = NULL;

    folder_store(store, name);
    if (weir_open(&w, &o, NULL) != 0)
        return NULL;
    if (p && weir_policy_set_at(w, "p", limit, T0, p, NULL) != 0)
        return NULL;
    return w;
}

static void must_end_well(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        fail_msg("a process died of \"%s\"", strsignal(WTERMSIG(status)));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static bool take_one(struct weir *w, struct weir_policy *p, const char *key)
{
    const struct weir_request rq = weir_request_of(p, key, strlen(key));
    struct weir_verdict v;

    return weir_take_at(w, &rq, T0, &v) == 0;
}

static int64_t used(struct weir *w, struct weir_policy *p, const char *key)
{
    const struct weir_request rq = {p, key, strlen(key), 0, 0};
    struct weir_verdict v;

    return weir_peek_at(w, &rq, T0, &v) == 0 ? v.limit - v.remaining : -1;
}

/* Which process holds the byte of a seat; 0: none. */
static pid_t holder_of(const char *name, uint32_t seat)
{
    struct flock l = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = WEIR__LOCK_SEATS + seat, .l_len = 1};
    char path[FOLDER_PATH];
    int fd, pipes[2];
    pid_t child, holder = -1;

    /* In a child: to close a descriptor here would drop our own locks. */
    assert_int_equal(pipe(pipes), 0);
    folder_path(path, name);
    child = fork();
    if (child == 0) {
        fd = open(path, O_RDWR | O_CLOEXEC);
        if (fcntl(fd, F_GETLK, &l) != 0)
            _exit(1);
        holder = l.l_type == F_UNLCK ? 0 : l.l_pid;
        _exit(write(pipes[1], &holder, sizeof holder) != sizeof holder);
    }
    must_end_well(child);
    assert_int_equal(read(pipes[0], &holder, sizeof holder), sizeof holder);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
    return holder;
}

/* ---- Coming in --------------------------------------------------------------------------------- */

static void all_who_make_a_file_at_once_share_it(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const int n = 2 + round % 3;
        struct yard *y = yard_open();
        struct weir_policy *p;
        pid_t child[4];
        char path[FOLDER_PATH];
        struct weir *w;

        for (int i = 0; i < n; i++) {
            child[i] = fork();
            if (child[i] == 0) {
                meet(y, n);
                w = open_named("made", &p, "fixed-window 100/1h");
                _exit(!w || !take_one(w, p, "key"));
            }
        }
        for (int i = 0; i < n; i++)
            must_end_well(child[i]);
        w = open_named("made", &p, "fixed-window 100/1h");
        assert_non_null(w);
        assert_int_equal(used(w, p, "key"), n);
        weir_close(w);
        folder_path(path, "made");
        (void)unlink(path);
        (void)munmap(y, sizeof *y);
    }
}

static void one_process_may_open_a_file_twice(void **state)
{
    struct weir_policy *p, *q;
    struct weir *a = open_named("twice", &p, "fixed-window 100/1h");
    struct weir *b = open_named("twice", &q, "fixed-window 100/1h");

    (void)state;
    assert_true(take_one(a, p, "key") && take_one(b, q, "key"));
    assert_int_equal(used(a, p, "key"), 2);
    assert_int_equal(holder_of("twice", 0), getpid());
    weir_close(b);
    assert_int_equal(holder_of("twice", 0), getpid()); /* by another's close nothing is lost */
    assert_true(take_one(a, p, "key"));
    assert_int_equal(used(a, p, "key"), 3);
    weir_close(a);
    assert_int_equal(holder_of("twice", 0), 0);
}

/* ---- Seats ------------------------------------------------------------------------------------- */

#define CROWD (WEIR__FILE_SEATS + 20)

struct crowd {
    struct weir *w;
    struct weir_policy *p;
    pthread_barrier_t all_asked;
    _Atomic int full, other;
};

static void *ask_and_stay(void *crowd)
{
    struct crowd *c = crowd;
    const struct weir_request rq = weir_request_of(c->p, "key", 3);
    struct weir_verdict v;
    const int error = weir_take_at(c->w, &rq, T0, &v);

    if (error == WEIR_EFULL)
        atomic_fetch_add(&c->full, 1);
    else if (error != 0)
        atomic_fetch_add(&c->other, 1);
    (void)pthread_barrier_wait(&c->all_asked);
    return NULL;
}

static void come_and_go(struct crowd *c, int n)
{
    pthread_t thread[CROWD];
    pthread_attr_t small;

    (void)pthread_attr_init(&small);
    (void)pthread_attr_setstacksize(&small, 256 * 1024);
    (void)pthread_barrier_init(&c->all_asked, NULL, (unsigned)n);
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_create(&thread[i], &small, ask_and_stay, c), 0);
    for (int i = 0; i < n; i++)
        (void)pthread_join(thread[i], NULL);
    (void)pthread_barrier_destroy(&c->all_asked);
    (void)pthread_attr_destroy(&small);
}

static void threads_beyond_the_seats_are_told_so(void **state)
{
    struct crowd c = {0};

    (void)state;
    c.w = open_named("crowd", &c.p, "fixed-window 1000000/1h");
    come_and_go(&c, CROWD);
    assert_int_equal(c.other, 0);
    assert_int_equal(c.full, CROWD - WEIR__FILE_SEATS);
    assert_true(take_one(c.w, c.p, "key"));
    assert_int_equal(used(c.w, c.p, "key"), WEIR__FILE_SEATS + 1);
    weir_close(c.w);
}

static void threads_that_end_make_room_for_others(void **state)
{
    struct crowd c = {0};

    (void)state;
    c.w = open_named("coming and going", &c.p, "fixed-window 1000000/1h");
    for (int i = 0; i < 4; i++)
        come_and_go(&c, WEIR__FILE_SEATS - 10);
    assert_int_equal(c.full + c.other, 0);
    weir_close(c.w);
}

static void threads_that_end_make_room_for_other_processes(void **state)
{
    struct crowd c = {0};
    pid_t child;

    (void)state;
    c.w = open_named("seats", &c.p, "fixed-window 1000000/1h");
    come_and_go(&c, WEIR__FILE_SEATS);
    assert_int_equal(c.full + c.other, 0);
    child = fork();
    if (child == 0)
        _exit(!take_one(c.w, c.p, "key"));
    must_end_well(child);
    weir_close(c.w);
}

/* ---- fork -------------------------------------------------------------------------------------- */

struct busy {
    struct weir *w;
    struct weir_policy *p;
    _Atomic bool stop;
};

static void *take_and_change(void *busy)
{
    struct busy *b = busy;

    for (int i = 0; !atomic_load(&b->stop); i++) {
        (void)take_one(b->w, b->p, "key");
        if (i % 20 == 0)
            (void)weir_policy_set_at(b->w, "p", i % 40 ? "fixed-window 1000000/1h" : "100/s", T0,
                                     NULL, NULL);
    }
    return NULL;
}

/* What a child does with what its parent opened, while the parent's threads were in the midst of it. */
static int go_on(struct busy *b)
{
    (void)alarm(TRIAL_HANG_S);
    if (!take_one(b->w, b->p, "key"))
        return 1;
    if (weir_policy_set_at(b->w, "child's", "fixed-window 10/1h", T0, NULL, NULL) != 0)
        return 2;
    if (!weir_policy_find(b->w, "p"))
        return 3;
    weir_close(b->w);
    return 0;
}

static void a_child_goes_on_whatever_its_parents_threads_did(void **state)
{
    struct busy b = {0};
    pthread_t thread[4];
    int status = 0;

    (void)state;
    b.w = open_named("forked", &b.p, "fixed-window 1000000/1h");
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, take_and_change, &b), 0);
    for (int i = 0; i < ROUNDS && status == 0; i++) {
        const pid_t child = fork();

        if (child == 0)
            _exit(go_on(&b));
        (void)waitpid(child, &status, 0);
    }
    atomic_store(&b.stop, true);
    for (int i = 0; i < 4; i++)
        (void)pthread_join(thread[i], NULL);
    if (status != 0)
        fail_msg("a child ended with status %d, signal \"%s\"", WEXITSTATUS(status),
                 strsignal(WTERMSIG(status)));
    assert_true(holder_of("forked", 0) == getpid()); /* the children's closing took nothing away */
    assert_true(take_one(b.w, b.p, "key"));
    weir_close(b.w);
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
    *still_used = used(w, p, "used");
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
    struct weir *w = open_named("time", NULL, NULL);

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
        must_end_well(child);
        (void)close(pipes[0]);
        (void)close(pipes[1]);
        assert_true(there >= before - SECOND / 1000);
        assert_true(there <= weir_now(w) + SECOND / 1000);
    }
    weir_close(w);
}

/* ---- The law ----------------------------------------------------------------------------------- */

/* Asks at a time that every call moves on; the parent's engine serves half of them, own ones the rest. */
static int take_and_take(struct yard *y, const char *name, int self, int keys)
{
    unsigned dice = (unsigned)self * 2654435761u + 1;
    struct weir_policy *p;
    struct weir *w = open_named(name, &p, "token-bucket 1000/s burst=50");

    if (!w)
        return 1;
    (void)alarm(120);
    meet(y, EACH);
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
        must_end_well(child[i]);
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
        cmocka_unit_test(all_who_make_a_file_at_once_share_it),
        cmocka_unit_test(one_process_may_open_a_file_twice),
        cmocka_unit_test(threads_beyond_the_seats_are_told_so),
        cmocka_unit_test(threads_that_end_make_room_for_others),
        cmocka_unit_test(threads_that_end_make_room_for_other_processes),
        cmocka_unit_test(a_child_goes_on_whatever_its_parents_threads_did),
        cmocka_unit_test(time_never_goes_back_over_a_reboot),
        cmocka_unit_test(all_who_open_a_file_have_its_time),
        cmocka_unit_test(eight_processes_at_one_key_get_what_the_law_allows),
        cmocka_unit_test(eight_processes_at_ten_keys_get_what_the_law_allows),
        cmocka_unit_test(eight_processes_at_many_keys_get_what_the_law_allows),
    };

    return trials_main("store-sharing", tests, LENGTH(tests));
}
