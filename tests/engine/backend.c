/* Where a test's engines keep their keys; see backend.h. */
#include "backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPEN_MOST 64
#define FILE_KEYS 20000

static struct {
    bool files;
    const char *redis; /* the URL; every engine has keys of its own there, by its prefix */
    char dir[256];
    unsigned made;
    struct {
        struct weir *w;
        unsigned number;
    } open[OPEN_MOST];
} place;

static void path_of(char out[300], unsigned number)
{
    (void)snprintf(out, 300, "%s/%u.weir", place.dir, number);
}

static void backend_remove(void)
{
    for (unsigned i = 1; i <= place.made; i++) {
        char path[300];

        path_of(path, i);
        (void)unlink(path);
    }
    (void)rmdir(place.dir);
}

bool backend_choose(const char *kind)
{
    const char *tmp = getenv("TMPDIR");

    if (strcmp(kind, "memory:") == 0)
        return true;
    if (strncmp(kind, "redis", 5) == 0) {
        place.redis = kind;
        return true;
    }
    if (strcmp(kind, "file:") != 0)
        return false;
    place.files = true;
    (void)snprintf(place.dir, sizeof place.dir, "%s/weir-test-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(place.dir)) {
        perror(place.dir);
        exit(2);
    }
    (void)atexit(backend_remove);
    return true;
}

const char *backend_kind(void)
{
    return place.redis ? "redis:" : place.files ? "file:" : "memory:";
}

bool backend_is_remote(void)
{
    return place.redis != NULL;
}

int64_t backend_tick_ns(void)
{
    return backend_is_remote() ? 1000 : 1;
}

static void backend_remember(struct weir *w)
{
    for (int i = 0; i < OPEN_MOST; i++)
        if (!place.open[i].w) {
            place.open[i].w = w;
            place.open[i].number = place.made;
            return;
        }
    abort();
}

struct weir *backend_open(const struct weir_options *options)
{
    struct weir_options o = options ? *options : (struct weir_options){0};
    char store[320] = "memory:", path[300];
    struct weir_diag why = {0};
    struct weir *w = NULL;
    int error;

    if (place.files) {
        if (o.max_keys == 0)
            o.max_keys = FILE_KEYS; /* a file takes all of its room at once */
        path_of(path, ++place.made);
        (void)snprintf(store, sizeof store, "file:%s", path);
    }
    if (place.redis) /* patient: a machine may be slow, and no test of ours wants a fallback here */
        (void)snprintf(store, sizeof store, "%s?prefix=t%u&timeout=10s", place.redis, ++place.made);
    o.store = store;
    error = weir_open(&w, &o, &why);
    if (error != 0) {
        (void)fprintf(stderr, "weir_open(%s): %s: %s\n", store, weir_error_name(error), why.text);
        exit(2);
    }
    if (place.files)
        backend_remember(w);
    return w;
}

void backend_close(struct weir *w)
{
    weir_close(w);
    for (int i = 0; i < OPEN_MOST; i++)
        if (place.open[i].w == w) {
            char path[300];

            path_of(path, place.open[i].number);
            (void)unlink(path);
            place.open[i].w = NULL;
        }
}

struct weir_policy *backend_policy(struct weir *w, const char *name, const char *limit,
                                   int64_t now_ns)
{
    struct weir_policy *policy = NULL;
    struct weir_diag why = {0};
    const int error = weir_policy_set_at(w, name, limit, now_ns, &policy, &why);

    if (error != 0) {
        (void)fprintf(stderr, "weir_policy_set_at(%s): %s: %s\n", limit, weir_error_name(error),
                      why.text);
        exit(2);
    }
    return policy;
}
