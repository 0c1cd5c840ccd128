/* What the tests of faults share: files with given bytes, and opens that may end badly and so
 * happen in a child. */
#ifndef WEIR_TESTS_TRIAL_H
#define WEIR_TESTS_TRIAL_H

#include "../unit/check.h"

#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

#include <weir.h>

#include "../engine/backend.h"
#include "engine/store/format.h"

#include "folder.h"
#include "image.h"

#define LENGTH(a)    (sizeof(a) / sizeof *(a))
#define SECOND       INT64_C(1000000000)
#define T0           (INT64_C(1704067200) * SECOND)
#define TRIAL_HANG_S 20

/* What became of something that was done in a child. */
struct trial {
    int ended; /* 0: it came to its end; else the signal that it died of */
    int error; /* what it returned */
    int at;    /* where it was, if it says so */
    char text[512];
};

/* Does it in a child, which may die, and is killed if it hangs. It writes what it finds to *t. */
struct trial trial_run(void (*does)(struct trial *t, void *arg), void *arg);
/* Opens the store in a child, and closes it. */
struct trial trial_open(const char *name);
/* Fails unless it came to its end. */
void trial_ended(const struct trial *t);
/* Fails unless it was refused so, and the message says which file and has this in it. */
void trial_refused(const struct trial *t, int error, const char *name, const char *part);

/* A sound file of one policy "p", "fixed-window 10/1h", whose key "used" has used 3 at T0; made
 * once and kept in memory. */
const struct image *trial_sound(void);
/* The header in an image. */
struct weir__header *trial_header(const struct image *i);
/* A copy of the sound image, to be changed. */
struct image trial_copy(void);
void trial_write(const char *name, const void *bytes, size_t n);
/* Whether the file is these bytes. */
bool trial_is(const char *name, const void *bytes, size_t n);
/* Writes the image, and opens the store, in this process. */
struct weir *trial_store(const char *name, const struct image *i);

/* An engine over the file, in this process, with the policy "p" if it is asked for; NULL: it cannot
 * be. */
struct weir *trial_engine(const char *name, struct weir_policy **p, const char *limit);
/* Takes 1 at T0: whether there was an answer. What is used at T0; -1: no answer. */
bool trial_take(struct weir *w, struct weir_policy *p, const char *key);
int64_t trial_used(struct weir *w, struct weir_policy *p, const char *key);
/* Waits for the child; fails unless it exits with 0. */
void trial_went_well(pid_t child);

/* Zeroed memory for what processes share beside a file; and a gate in it that lets n of them pass
 * at once. */
void *trial_shared(size_t bytes);
void trial_meet(_Atomic int *gate, int n);

/* A program of such tests; what main returns. */
#define trials_main(name, tests, all) \
    (folder_open(), trials_told(name, all, cmocka_run_group_tests_name(name, tests, NULL, NULL)))
int trials_told(const char *name, size_t all, int failed);

#endif
