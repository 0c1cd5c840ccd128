/* What the system refuses: no directory, no permission, no room, no address space. Each is an error
 * with a message that names the file and says why, and leaves nothing behind.
 */
#include "trial.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOBODY 65534

static void open_store(struct trial *t, const char *store, uint64_t max_keys)
{
    const struct weir_options o = {.store = store, .max_keys = max_keys, .max_policies = 2};
    struct weir_diag why = {0};
    struct weir *w = NULL;

    t->error = weir_open(&w, &o, &why);
    (void)snprintf(t->text, sizeof t->text, "%s", why.text);
    if (t->error == 0)
        weir_close(w);
}

static void open_path(struct trial *t, void *path)
{
    char store[6000];

    (void)snprintf(store, sizeof store, "file:%s", (const char *)path);
    open_store(t, store, 20);
}

/* ---- Paths ----------------------------------------------------------------------------------- */

static void refuses_a_path_without_its_directory(void **state)
{
    struct trial t = trial_open("missing/file");

    (void)state;
    trial_refused(&t, WEIR_EIO, "missing/file", "/missing does not exist");
}

static void refuses_a_path_through_a_file(void **state)
{
    struct trial t;

    (void)state;
    trial_write("plain", "text", 4);
    t = trial_open("plain/file");
    trial_refused(&t, WEIR_EIO, "plain/file", "Not a directory");
}

static void refuses_a_path_that_is_too_long(void **state)
{
    char path[5000], name[400];
    struct trial t;

    (void)state;
    memset(path, 'x', sizeof path);
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    t = trial_run(open_path, path);
    trial_refused(&t, WEIR_EINVAL, "4999", "at most 4000");
    path[4000] = '\0';
    t = trial_run(open_path, path);
    trial_refused(&t, WEIR_EIO, "/xxx", "cannot");
    memset(name, 'y', sizeof name);
    name[0] = '/';
    name[sizeof name - 1] = '\0';
    t = trial_run(open_path, name); /* one name may have 255 bytes */
    trial_refused(&t, WEIR_EIO, "yyy", "name too long");
}

static void refuses_a_relative_path(void **state)
{
    struct trial t = trial_run(open_path, (void *)(uintptr_t) "limits.state");

    (void)state;
    trial_refused(&t, WEIR_EINVAL, "file:limits.state", "relative");
}

static void refuses_a_store_without_a_path(void **state)
{
    struct trial t = trial_run(open_path, (void *)(uintptr_t) "");

    (void)state;
    trial_refused(&t, WEIR_ESTORE, "file:", "expected");
}

/* ---- Permissions ----------------------------------------------------------------------------- */

/* As a user that permissions bind. */
static void open_without_rights(struct trial *t, void *path)
{
    if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
        _exit(99);
    open_path(t, path);
}

static void refuses_a_directory_that_cannot_be_written(void **state)
{
    char folder_of[FOLDER_PATH], path[FOLDER_PATH + 10];
    struct trial t;

    (void)state;
    folder_path(folder_of, "guarded");
    (void)snprintf(path, sizeof path, "%s/file", folder_of);
    assert_int_equal(chmod(folder(), 0755), 0);
    assert_int_equal(mkdir(folder_of, 0555), 0);
    t = trial_run(open_without_rights, path);
    trial_refused(&t, WEIR_EIO, path, "Permission denied");
    assert_int_equal(access(path, F_OK), -1);
}

static void refuses_a_file_that_cannot_be_written(void **state)
{
    const struct image *i = trial_sound();
    char path[FOLDER_PATH];
    struct trial t;

    (void)state;
    trial_write("guarded file", i->at, i->bytes);
    folder_path(path, "guarded file");
    assert_int_equal(chmod(folder(), 0755), 0);
    assert_int_equal(chmod(path, 0444), 0);
    t = trial_run(open_without_rights, path);
    trial_refused(&t, WEIR_EIO, path, "Permission denied");
    assert_true(trial_is("guarded file", i->at, i->bytes));
}

/* ---- File systems ---------------------------------------------------------------------------- */

struct disk {
    const char *path;
    unsigned long flags;
    const char *data;
};

/* A file system of our own over the path, which no other process sees. False: we may not do
 * that. */
static bool mount_own(const struct disk *d)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", d->path, "tmpfs", d->flags, d->data) == 0;
}

static void open_on_own(struct trial *t, void *disk)
{
    const struct disk *d = disk;
    char path[FOLDER_PATH + 10];

    if (!mount_own(d))
        _exit(99);
    (void)snprintf(path, sizeof path, "%s/file", d->path);
    open_path(t, path);
    if (access(path, F_OK) == 0)
        t->at = 1;
}

static void refuses_a_read_only_file_system(void **state)
{
    char path[FOLDER_PATH];
    const struct disk d = {path, MS_RDONLY, ""};
    struct trial t;

    (void)state;
    folder_path(path, "fixed");
    assert_int_equal(mkdir(path, 0700), 0);
    t = trial_run(open_on_own, (void *)(uintptr_t)&d);
    if (t.ended == 99)
        skip();
    trial_refused(&t, WEIR_EIO, "fixed/file", "Read-only file system");
}

/* Where we may not mount: files may not become large. */
static void open_within_a_limit(struct trial *t, void *path)
{
    const struct rlimit most = {65536, 65536};

    (void)signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &most) != 0)
        _exit(99);
    open_path(t, path);
    t->at = access(path, F_OK) == 0;
}

static void refuses_a_disk_without_room(void **state)
{
    char path[FOLDER_PATH];
    const struct disk d = {path, 0, "size=64k"};
    struct trial t;

    (void)state;
    folder_path(path, "full");
    assert_int_equal(mkdir(path, 0700), 0);
    t = trial_run(open_on_own, (void *)(uintptr_t)&d);
    if (t.ended != 99)
        trial_refused(&t, WEIR_EIO, "full/file", "No space left on device");
    assert_int_equal(t.at, 0);
    folder_path(path, "large");
    t = trial_run(open_within_a_limit, path);
    trial_refused(&t, WEIR_EIO, path, "File too large");
    assert_int_equal(t.at, 0);
}

static int64_t used(struct weir *w, struct weir_policy *p)
{
    const struct weir_request rq = {p, "key", 3, 0, 0};
    struct weir_verdict v = {0};

    return weir_peek_at(w, &rq, T0, &v) == 0 ? v.limit - v.remaining : -1;
}

/* The disk fills up after the file was made: a new size of state finds no room. */
static void grow_on_a_full_disk(struct trial *t, void *path)
{
    char store[FOLDER_PATH + 20];
    const struct weir_options o = {.store = store, .max_keys = 20, .max_policies = 3};
    const struct rlimit most = {1400000, 1400000}, more = {8000000, 8000000};
    struct rlimit least = most;
    struct weir_diag why = {0};
    struct weir_policy *p;
    struct weir_request rq;
    struct weir_verdict v;
    struct weir_stats stats;
    struct weir *w;

    (void)signal(SIGXFSZ, SIG_IGN);
    (void)snprintf(store, sizeof store, "file:%s", (const char *)path);
    if (weir_open(&w, &o, NULL) != 0 ||
        weir_policy_set_at(w, "p", "fixed-window 10/1h", T0, &p, NULL) != 0)
        _exit(3);
    rq = weir_request_of(p, "key", 3);
    (void)weir_take_at(w, &rq, T0, &v);
    (void)weir_stats_at(w, T0, &stats);
    least.rlim_cur = stats.bytes;
    least.rlim_max = more.rlim_max;
    if (setrlimit(RLIMIT_FSIZE, &least) != 0)
        _exit(99);
    t->error = weir_policy_set_at(w, "log", "sliding-log 20/1h", T0, NULL, &why);
    (void)snprintf(t->text, sizeof t->text, "%s", why.text);
    t->at = weir_policy_find(w, "log") != NULL || used(w, p) != 1;
    if (setrlimit(RLIMIT_FSIZE, &more) != 0 ||
        weir_policy_set_at(w, "log", "sliding-log 20/1h", T0, NULL, NULL) != 0 || used(w, p) != 1)
        t->at = 2;
}

static void a_table_that_finds_no_room_is_an_error_and_no_more(void **state)
{
    char path[FOLDER_PATH];
    struct trial t;

    (void)state;
    folder_path(path, "grows");
    t = trial_run(grow_on_a_full_disk, path);
    if (t.ended == 99)
        skip();
    trial_refused(&t, WEIR_EIO, "bytes", "File too large");
    assert_int_equal(t.at, 0);
}

/* ---- No /proc -------------------------------------------------------------------------------- */

/* Makes a file, and opens it again as one that saw the time an hour ahead, in an unknown boot. */
static void open_without_proc(struct trial *t, void *path)
{
    const struct disk d = {"/proc", 0, ""};
    const int64_t ahead = weir_now(NULL) + 3600 * SECOND;
    char store[FOLDER_PATH + 10];
    const struct weir_options o = {.store = store, .max_keys = 20};
    struct image_file f;
    struct weir *w;

    if (!mount_own(&d))
        _exit(99);
    open_path(t, path);
    if (t->error != 0)
        return;
    f = image_open(path);
    atomic_store(&((struct weir__header *)(void *)f.at)->stamp_ns, ahead);
    (void)snprintf(store, sizeof store, "file:%s", (const char *)path);
    t->error = weir_open(&w, &o, NULL);
    t->at = t->error == 0 && weir_now(w) >= ahead;
}

static void without_proc_files_are_made_and_time_goes_on(void **state)
{
    char path[FOLDER_PATH];
    struct trial t;
    int files;

    (void)state;
    folder_path(path, "no proc");
    files = folder_count();
    t = trial_run(open_without_proc, path);
    if (t.ended == 99)
        skip();
    trial_ended(&t);
    assert_int_equal(t.error, 0);
    assert_int_equal(t.at, 1);
    assert_int_equal(folder_count(), files + 1);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void open_without_room(struct trial *t, void *path)
{
    const struct rlimit most = {UINT64_C(200) << 20, UINT64_C(200) << 20};
    char store[FOLDER_PATH + 10];

    if (setrlimit(RLIMIT_AS, &most) != 0)
        _exit(99);
    (void)snprintf(store, sizeof store, "file:%s", (const char *)path);
    open_store(t, store, 10000000);
    t->at = access(path, F_OK) == 0;
}

static void refuses_what_cannot_be_mapped(void **state)
{
    char path[FOLDER_PATH];
    struct trial t;

    (void)state;
    if (UNDER_ASAN || UNDER_TSAN)
        skip(); /* they map more than that themselves */
    folder_path(path, "unmapped");
    t = trial_run(open_without_room, path);
    trial_ended(&t);
    assert_true(t.error == WEIR_ENOMEM || t.error == WEIR_EIO);
    assert_non_null(strstr(t.text, "cannot map"));
    assert_non_null(strstr(t.text, path));
    assert_non_null(strstr(t.text, "Cannot allocate memory"));
    assert_int_equal(t.at, 0); /* and there is no file */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_a_path_without_its_directory),
        cmocka_unit_test(refuses_a_path_through_a_file),
        cmocka_unit_test(refuses_a_path_that_is_too_long),
        cmocka_unit_test(refuses_a_relative_path),
        cmocka_unit_test(refuses_a_store_without_a_path),
        cmocka_unit_test(refuses_a_directory_that_cannot_be_written),
        cmocka_unit_test(refuses_a_file_that_cannot_be_written),
        cmocka_unit_test(refuses_a_read_only_file_system),
        cmocka_unit_test(refuses_a_disk_without_room),
        cmocka_unit_test(a_table_that_finds_no_room_is_an_error_and_no_more),
        cmocka_unit_test(without_proc_files_are_made_and_time_goes_on),
        cmocka_unit_test(refuses_what_cannot_be_mapped),
    };

    return trials_main("store-system", tests, LENGTH(tests));
}
