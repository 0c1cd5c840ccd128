/* A process that is killed at any given instruction of its own.
 *
 * First a rehearsal: a child does the deed one instruction at a time and writes down where it was
 * after each, and whether the memory that is watched had changed. Then, as often as wanted, another
 * child does the same deed and dies at the k-th of them. Both are forked from the same parent, so
 * that they take the same steps.
 *
 * No process traces another: the process sets its own trap flag. Stepping through everything again
 * for every k would take minutes. So a victim runs to an earlier point, its anchor, and steps only
 * from there: it has put a breakpoint at the anchor's instruction, and the rehearsal knows how
 * often it passes that instruction before. A pass costs two traps and a step one; the anchor of
 * each point is the one from which it costs least.
 */
#ifndef WEIR_TESTS_STEP_H
#define WEIR_TESTS_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STEP_WATCHES 4

struct step_point {
    uintptr_t at;    /* the instruction that comes next */
    uint32_t passes; /* how often an earlier point had the same one */
    uint32_t anchor; /* the point up to this one that a victim runs to; or STEP_NO_ANCHOR */
    uint32_t cost;   /* of reaching this point, in traps */
    uint32_t changed;
};
#define STEP_NO_ANCHOR UINT32_MAX

/* The points of a deed. They lie in memory that children share with their parent. */
struct step_trace {
    size_t n, cap;
    int result; /* what the deed returned */
    bool whole; /* there were no more than cap */
    struct step_point point[];
};

static inline size_t step_changes(const struct step_trace *t)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n; i++)
        n += t->point[i].changed;
    return n;
}

struct step_watch {
    const void *at;
    size_t bytes;
};

struct step_deed {
    int (*act)(void *arg);
    void *arg;
    const void *from; /* a function: the points begin when it is called first. NULL: at once */
    struct step_watch watch[STEP_WATCHES];
};

/* False: this machine cannot do it. */
bool step_works(void);

struct step_trace *step_trace_open(size_t cap);
void step_trace_close(struct step_trace *t);

/* In a child: does the deed and writes down its points. */
void step_rehearse(const struct step_deed *d, struct step_trace *t);
/* In the parent, afterwards: what a victim can run to. */
void step_index(struct step_trace *t);
/* In another child: does the deed and dies by SIGKILL at point k. Returns if that was never
 * reached. */
void step_die_at(const struct step_deed *d, const struct step_trace *t, size_t k);

#endif
