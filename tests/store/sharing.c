/* Many processes and threads at one file: all come in, and none is locked out. */
#include "trial.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS (UNDER_ASAN ? 40 : 200)

/* Which process holds the byte of an owner; 0: none. */
static pid_t holder_of(const char *name, uint32_t owner)
{
    struct flock l = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = WEIR__LOCK_OWNERS + owner, .l_len = 1};
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
    trial_went_well(child);
    assert_int_equal(read(pipes[0], &holder, sizeof holder), sizeof holder);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
    return holder;
}

/* ---- Coming in ------------------------------------------------------------------------------- */

static void processes_that_make_a_file_at_once_share_it(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const int n = 2 + round % 3;
        _Atomic int *gate = trial_shared(sizeof *gate);
        struct weir_policy *p;
        pid_t child[4];
        char path[FOLDER_PATH];
        struct weir *w;

        for (int i = 0; i < n; i++) {
            child[i] = fork();
            if (child[i] == 0) {
                trial_meet(gate, n);
                w = trial_engine("made", &p, "fixed-window 100/1h");
                _exit(!w || !trial_take(w, p, "key"));
            }
        }
        for (int i = 0; i < n; i++)
            trial_went_well(child[i]);
        w = trial_engine("made", &p, "fixed-window 100/1h");
        assert_non_null(w);
        assert_int_equal(trial_used(w, p, "key"), n);
        weir_close(w);
        folder_path(path, "made");
        (void)unlink(path);
        (void)munmap(gate, sizeof *gate);
    }
}

static void one_process_may_open_a_file_twice(void **state)
{
    struct weir_policy *p, *q;
    struct weir *a = trial_engine("twice", &p, "fixed-window 100/1h");
    struct weir *b = trial_engine("twice", &q, "fixed-window 100/1h");

    (void)state;
    assert_true(trial_take(a, p, "key") && trial_take(b, q, "key"));
    assert_int_equal(trial_used(a, p, "key"), 2);
    assert_int_equal(holder_of("twice", 0), getpid());
    weir_close(b);
    assert_int_equal(holder_of("twice", 0), getpid()); /* by another's close nothing is lost */
    assert_true(trial_take(a, p, "key"));
    assert_int_equal(trial_used(a, p, "key"), 3);
    weir_close(a);
    assert_int_equal(holder_of("twice", 0), 0);
}

/* ---- Locks ----------------------------------------------------------------------------------- */

/* A process that holds the lock of the file's header. */
static pid_t hold_header(const char *name)
{
    struct flock l = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = WEIR__LOCK_HEADER, .l_len = 1};
    char path[FOLDER_PATH], done;
    int pipes[2];
    pid_t child;

    folder_path(path, name);
    assert_int_equal(pipe(pipes), 0);
    child = fork();
    if (child == 0) {
        (void)alarm(TRIAL_HANG_S);
        if (fcntl(open(path, O_RDWR | O_CLOEXEC), F_SETLK, &l) != 0 || write(pipes[1], "", 1) != 1)
            _exit(1);
        for (;;)
            (void)pause();
    }
    assert_int_equal(read(pipes[0], &done, 1), 1);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
    return child;
}

static void let_go(pid_t holder)
{
    assert_int_equal(kill(holder, SIGKILL), 0);
    assert_int_equal(waitpid(holder, NULL, 0), holder);
}

static void a_locked_file_is_named_in_the_error(void **state)
{
    struct trial t;
    pid_t holder;

    (void)state;
    trial_write("locked", trial_sound()->at, trial_sound()->bytes);
    holder = hold_header("locked");
    t = trial_open("locked");
    trial_refused(&t, WEIR_EBUSY, "/locked", "locked by another process for a second");
    let_go(holder);
}

static void a_policy_that_cannot_be_forgotten_stays_in_force(void **state)
{
    struct weir_policy *p;
    struct weir *w = trial_engine("kept", &p, "fixed-window 100/1h");
    const pid_t holder = hold_header("kept");

    (void)state;
    assert_int_equal(weir_policy_forget(w, p), WEIR_EBUSY);
    assert_true(trial_take(w, p, "key"));
    let_go(holder);
    assert_ptr_equal(weir_policy_find(w, "p"), p);
    assert_int_equal(weir_policy_forget(w, p), 0);
    assert_null(weir_policy_find(w, "p"));
    weir_close(w);
}

/* ---- Owners ---------------------------------------------------------------------------------- */

#define CROWD (WEIR__FILE_OWNERS + 20)

struct sharing_crowd {
    struct weir *w;
    struct weir_policy *p;
    pthread_barrier_t all_asked;
    _Atomic int full, other;
};

static void *ask_and_stay(void *crowd)
{
    struct sharing_crowd *c = crowd;
    const struct weir_request rq = weir_request_of(c->p, "key", 3);
    struct weir_verdict v;
    const int error = weir_take_at(c->w, &rq, T0, &v);
    struct weir_stats stats;
    struct weir_diag why = {0};

    if (error == WEIR_EFULL && weir_stats_at(c->w, T0, &stats) == WEIR_EFULL &&
        weir_override_set_at(c->w, c->p, "key", 3, NULL, T0, &why) == WEIR_EFULL &&
        strstr(why.text, "512 threads"))
        atomic_fetch_add(&c->full, 1);
    else if (error != 0)
        atomic_fetch_add(&c->other, 1);
    (void)pthread_barrier_wait(&c->all_asked);
    return NULL;
}

static void come_and_go(struct sharing_crowd *c, int n)
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

static void threads_beyond_the_owners_get_an_error(void **state)
{
    struct sharing_crowd c = {0};

    (void)state;
    c.w = trial_engine("crowd", &c.p, "fixed-window 1000000/1h");
    come_and_go(&c, CROWD);
    assert_int_equal(c.other, 0);
    assert_int_equal(c.full, CROWD - (WEIR__FILE_OWNERS - 1)); /* one set the limit */
    assert_true(trial_take(c.w, c.p, "key"));
    assert_int_equal(trial_used(c.w, c.p, "key"), WEIR__FILE_OWNERS);
    weir_close(c.w);
}

static void threads_that_end_make_room_for_others(void **state)
{
    struct sharing_crowd c = {0};

    (void)state;
    c.w = trial_engine("coming and going", &c.p, "fixed-window 1000000/1h");
    for (int i = 0; i < 4; i++)
        come_and_go(&c, WEIR__FILE_OWNERS - 10);
    assert_int_equal(c.full + c.other, 0);
    weir_close(c.w);
}

static void threads_that_end_make_room_for_other_processes(void **state)
{
    struct sharing_crowd c = {0};
    pid_t child;

    (void)state;
    c.w = trial_engine("owners", &c.p, "fixed-window 1000000/1h");
    come_and_go(&c, WEIR__FILE_OWNERS - 1);
    assert_int_equal(c.full + c.other, 0);
    child = fork();
    if (child == 0)
        _exit(!trial_take(c.w, c.p, "key"));
    trial_went_well(child);
    weir_close(c.w);
}

/* ---- fork ------------------------------------------------------------------------------------ */

/* To change a policy is to allocate, and the sanitizers' allocators, unlike libc's, leave a child
 * with the locks of its parent's threads: there the threads only decide. */
#define CHANGES (!UNDER_ASAN && !UNDER_TSAN)

struct busy {
    struct weir *w;
    struct weir_policy *p;
    _Atomic bool stop;
};

static void *take_and_change(void *busy)
{
    struct busy *b = busy;

    for (int i = 0; !atomic_load(&b->stop); i++) {
        (void)trial_take(b->w, b->p, "key");
        if (CHANGES && i % 20 == 0)
            (void)weir_policy_set_at(b->w, "p", i % 40 ? "fixed-window 1000000/1h" : "100/s", T0,
                                     NULL, NULL);
    }
    return NULL;
}

/* What a child does with what its parent opened, while the parent's threads were in the midst of
 * it. */
static int go_on(struct busy *b)
{
    (void)alarm(TRIAL_HANG_S);
    if (!trial_take(b->w, b->p, "key"))
        return 1;
    if (weir_policy_set_at(b->w, "child's", "fixed-window 10/1h", T0, NULL, NULL) != 0)
        return 2;
    if (!weir_policy_find(b->w, "p"))
        return 3;
    weir_close(b->w);
    return 0;
}

/* Forks again and again while four threads are at it. */
static void fork_amid(struct busy *b)
{
    pthread_t thread[4];
    int status = 0;

    assert_non_null(b->w);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, take_and_change, b), 0);
    for (int i = 0; i < ROUNDS && status == 0; i++) {
        const pid_t child = fork();

        if (child == 0)
            _exit(go_on(b));
        (void)waitpid(child, &status, 0);
    }
    atomic_store(&b->stop, true);
    for (int i = 0; i < 4; i++)
        (void)pthread_join(thread[i], NULL);
    if (status != 0)
        fail_msg("a child ended with status %d, signal \"%s\"", WEXITSTATUS(status),
                 strsignal(WTERMSIG(status)));
    assert_true(trial_take(b->w, b->p, "key"));
}

static void a_child_goes_on_whatever_its_parents_threads_did(void **state)
{
    struct busy b = {0};

    (void)state;
    b.w = trial_engine("forked", &b.p, "fixed-window 1000000/1h");
    fork_amid(&b);
    assert_true(holder_of("forked", 0) == getpid()); /* the children's closing dropped no lock */
    weir_close(b.w);
}

/* With a store of its own, which contains what the parent's contained at that time. */
static void a_child_goes_on_with_a_private_store(void **state)
{
    struct busy b = {0};

    (void)state;
    assert_int_equal(weir_open(&b.w, NULL, NULL), 0);
    assert_int_equal(weir_policy_set_at(b.w, "p", "fixed-window 1000000/1h", T0, &b.p, NULL), 0);
    fork_amid(&b);
    weir_close(b.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_that_make_a_file_at_once_share_it),
        cmocka_unit_test(one_process_may_open_a_file_twice),
        cmocka_unit_test(a_locked_file_is_named_in_the_error),
        cmocka_unit_test(a_policy_that_cannot_be_forgotten_stays_in_force),
        cmocka_unit_test(threads_beyond_the_owners_get_an_error),
        cmocka_unit_test(threads_that_end_make_room_for_others),
        cmocka_unit_test(threads_that_end_make_room_for_other_processes),
        cmocka_unit_test(a_child_goes_on_whatever_its_parents_threads_did),
        cmocka_unit_test(a_child_goes_on_with_a_private_store),
    };

    return trials_main("store-sharing", tests, LENGTH(tests));
}
