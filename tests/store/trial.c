/* What the tests of faults share: files with given bytes, and opens in a child. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trial.h"

/* The test framework catches these, and would go on with the tests in the child. */
static void die_of_faults(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS};

    for (size_t i = 0; i < LENGTH(signals); i++)
        (void)signal(signals[i], SIG_DFL);
}

struct trial trial_run(void (*does)(struct trial *t, void *arg), void *arg)
{
    struct trial *shared = trial_shared(sizeof *shared), t;
    int status = 0;
    pid_t child;

    child = fork();
    if (child == 0) {
        die_of_faults();
        (void)alarm(TRIAL_HANG_S);
        does(shared, arg);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    t = *shared;
    (void)munmap(shared, sizeof *shared);
    t.ended = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    return t;
}

static void open_named(struct trial *t, void *name)
{
    char store[FOLDER_PATH];
    const struct weir_options o = {.store = store, .max_keys = 20, .max_policies = 2};
    struct weir_diag why = {0};
    struct weir *w = NULL;

    folder_store(store, name);
    t->error = weir_open(&w, &o, &why);
    (void)snprintf(t->text, sizeof t->text, "%s", why.text);
    if (t->error == 0)
        weir_close(w);
}

struct trial trial_open(const char *name)
{
    return trial_run(open_named, (void *)(uintptr_t)name);
}

void trial_ended(const struct trial *t)
{
    if (t->ended != 0)
        fail_msg("died of \"%s\" at %d: %s", strsignal(t->ended), t->at, t->text);
}

void trial_refused(const struct trial *t, int error, const char *name, const char *part)
{
    trial_ended(t);
    if (t->error != error || !strstr(t->text, name) || !strstr(t->text, part))
        fail_msg("expected %s and '%s' of '%s'; got %s: '%s'", weir_error_name(error), part, name,
                 weir_error_name(t->error), t->text);
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* The file that was written last stays mapped: to map it anew takes longer than to write it. */
static struct image_file *mapped(const char *path)
{
    static struct image_file last;
    struct stat is, was;

    if (last.at && (stat(path, &is) != 0 || fstat(last.fd, &was) != 0 || is.st_ino != was.st_ino)) {
        image_close(&last);
        last.at = NULL;
    }
    if (!last.at)
        last = image_open(path);
    return &last;
}

/* Writes only what differs: thousands of trials change a few bytes of one file. */
void trial_write(const char *name, const void *bytes, size_t n)
{
    const struct image wanted = {n, (char *)(uintptr_t)bytes};
    char path[FOLDER_PATH];

    folder_path(path, name);
    (void)truncate(path, (off_t)n); /* if it is there; it may be too long to be mapped */
    image_restore(mapped(path), &wanted);
}

bool trial_is(const char *name, const void *bytes, size_t n)
{
    char path[FOLDER_PATH], *is = malloc(n + 1);
    FILE *f;
    bool same;

    folder_path(path, name);
    f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(is);
    same = fread(is, 1, n + 1, f) == n && memcmp(is, bytes, n) == 0;
    (void)fclose(f);
    free(is);
    return same;
}

static void make_sound(struct trial *t, void *name)
{
    char store[FOLDER_PATH];
    const struct weir_options o = {.store = store, .max_keys = 20, .max_policies = 2};
    struct weir_policy *policy;
    struct weir_request rq;
    struct weir_verdict v;
    struct weir *w;

    folder_store(store, name);
    t->error = weir_open(&w, &o, NULL);
    if (!t->error)
        t->error = weir_policy_set_at(w, "p", "fixed-window 10/1h", T0, &policy, NULL);
    if (t->error)
        return;
    rq = weir_request_of(policy, "used", 4);
    rq.cost = 3;
    t->error = weir_take_at(w, &rq, T0, &v);
    weir_close(w);
}

const struct image *trial_sound(void)
{
    static struct image sound;
    char path[FOLDER_PATH];
    struct image_file f;
    struct trial t;

    if (sound.bytes > 0)
        return &sound;
    t = trial_run(make_sound, (void *)(uintptr_t) "sound");
    trial_ended(&t);
    assert_int_equal(t.error, 0);
    folder_path(path, "sound");
    f = image_open(path);
    image_save(&f, &sound);
    image_close(&f);
    (void)unlink(path);
    return &sound;
}

struct weir__header *trial_header(const struct image *i)
{
    return (struct weir__header *)(void *)i->at;
}

struct image trial_copy(void)
{
    const struct image *sound = trial_sound();
    struct image copy = {sound->bytes, malloc(sound->bytes)};

    assert_non_null(copy.at);
    memcpy(copy.at, sound->at, sound->bytes);
    return copy;
}

struct weir *trial_store(const char *name, const struct image *i)
{
    char store[FOLDER_PATH];
    const struct weir_options o = {.store = store};
    struct weir_diag why;
    struct weir *w;

    trial_write(name, i->at, i->bytes);
    folder_store(store, name);
    if (weir_open(&w, &o, &why) != 0)
        fail_msg("%s", why.text);
    return w;
}

/* ---- Processes ------------------------------------------------------------------------------- */

void *trial_shared(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(at, MAP_FAILED);
    return at;
}

void trial_meet(_Atomic int *gate, int n)
{
    atomic_fetch_add(gate, 1);
    while (atomic_load(gate) < n)
        (void)sched_yield();
}

/* ---- Engines --------------------------------------------------------------------------------- */

struct weir *trial_engine(const char *name, struct weir_policy **p, const char *limit)
{
    char store[FOLDER_PATH];
    /* With a secret of its own, so that keys share the same buckets in every run: some tests lock
     * the bucket of one key, and ask for another. */
    const struct weir_options o = {
        .store = store, .max_keys = 2000, .max_policies = 4, .secret = {3, 5}};
    struct weir *w = NULL;

    folder_store(store, name);
    if (weir_open(&w, &o, NULL) != 0)
        return NULL;
    if (p && weir_policy_set_at(w, "p", limit, T0, p, NULL) != 0)
        return NULL;
    return w;
}

void trial_went_well(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        fail_msg("a process died of \"%s\"", strsignal(WTERMSIG(status)));
    assert_int_equal(WEXITSTATUS(status), 0);
}

bool trial_take(struct weir *w, struct weir_policy *p, const char *key)
{
    const struct weir_request rq = weir_request_of(p, key, strlen(key));
    struct weir_verdict v;

    return weir_take_at(w, &rq, T0, &v) == 0;
}

int64_t trial_used(struct weir *w, struct weir_policy *p, const char *key)
{
    const struct weir_request rq = {p, key, strlen(key), 0, 0};
    struct weir_verdict v;

    return weir_peek_at(w, &rq, T0, &v) == 0 ? v.limit - v.remaining : -1;
}

int trials_told(const char *name, size_t all, int failed)
{
    (void)printf("%s: %d passed, %d failed\n", name, (int)all - failed, failed);
    return failed != 0;
}
