/* One deed, killed again and again: what is kept of it, and how what it left behind is judged. */
#ifndef WEIR_TESTS_KILLING_H
#define WEIR_TESTS_KILLING_H

#include <sys/types.h>

#include "scenes.h"
#include "step.h"

#define OUTCOMES (SCENE_REQUESTS + 1)

/* What children write and their parent reads. */
struct shared {
    struct probe outcome[OUTCOMES], witness, fresh;
};

struct run {
    struct bed bed;
    struct image_file copy; /* of the bed's file, for one who opens it afresh */
    char copy_path[FOLDER_PATH], copy_store[FOLDER_PATH];
    struct image start, left; /* before the deed, and after the kill */
    struct step_trace *trace;
    struct shared *shared;
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

int wait_for(pid_t child);
/* Forks; the child does it and exits. */
pid_t child_that(void (*does)(struct run *r), struct run *r);

/* In a child, under an alarm: looks at every key, then uses every key, then sets a policy. */
void examine(struct weir *w, struct probe *p);
/* The same, of the copy, opened for it. */
void examine_copy(struct run *r);

/* Whether the one who examined came to an end and found one of the outcomes. */
bool judge(struct run *r, size_t k, const char *who, struct probe *p, int status);
int outcome_of(const struct run *r, const struct probe *p);
/* False; and prints the first few. */
bool complain(struct run *r, size_t k, const char *who, const char *what);

/* Kills at every point that changed the file and at some others; prints a line. */
bool kill_at_points(struct run *r, const struct kill_options *o,
                    void (*kill_at)(struct run *, size_t));

/* kill_open.c: those who open a file. */
bool kill_those_who_make(struct step_trace *trace, struct shared *shared,
                         const struct kill_options *o);
bool kill_those_who_open(struct step_trace *trace, struct shared *shared,
                         const struct kill_options *o);

#endif
