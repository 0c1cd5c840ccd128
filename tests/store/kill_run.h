/* One deed, killed again and again: what is kept of it, and how what it left behind is judged. */
#ifndef WEIR_TESTS_STORE_KILL_RUN_H
#define WEIR_TESTS_STORE_KILL_RUN_H

#include <sys/types.h>

#include "scenes.h"
#include "step.h"

#define OUTCOMES (SCENE_REQUESTS + 1)

/* What children write and their parent reads. */
struct kill_shared {
    struct probe outcome[OUTCOMES], witness, fresh;
};

struct kill_run {
    struct scene_store scene_store;
    struct image_file copy; /* of the bed's file, for a process that opens it afresh */
    char copy_path[FOLDER_PATH], copy_store[FOLDER_PATH];
    struct image start; /* before the deed */
    struct step_trace *trace;
    struct kill_shared *shared;
    int outcomes; /* how many ways there are to find the keys */
    size_t tried, survived, failed, undone;
    int64_t worst_ns;
};

struct kill_options {
    uint64_t seed;
    size_t points; /* that are tried beside those that change the file */
    bool all;
    const char *only;
};

int kill_wait_for(pid_t child);
/* Forks; the child does it and exits. */
pid_t kill_fork(void (*does)(struct kill_run *r), struct kill_run *r);

/* In a child, under an alarm: looks at every key, then uses every key, then sets a policy. */
void kill_examine(struct weir *w, struct probe *p);
/* The same, of the copy, opened for it. */
void kill_examine_copy(struct kill_run *r);

/* Whether the examiner came to an end and found one of the outcomes. */
bool kill_judge(struct kill_run *r, size_t k, const char *who, struct probe *p, int status);
int kill_outcome_of(const struct kill_run *r, const struct probe *p);
/* False; and prints the first few. */
bool kill_complain(struct kill_run *r, size_t k, const char *who, const char *what);

/* Kills at every point that changed the file and at some others; prints a line. */
bool kill_run_points(struct kill_run *r, const struct kill_options *o,
                     void (*kill_at)(struct kill_run *, size_t));

/* kill_open.c: processes that open a file. */
bool kill_makers(struct step_trace *trace, struct kill_shared *shared,
                 const struct kill_options *o);
bool kill_openers(struct step_trace *trace, struct kill_shared *shared,
                  const struct kill_options *o);

#endif
