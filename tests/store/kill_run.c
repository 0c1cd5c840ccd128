/* One scene, killed again and again, and how what it left behind is judged. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kill_run.h"

#define HANG_S     20 /* after which an examiner counts as stuck */
#define COMPLAINTS 3  /* that are printed, of each scene */

int kill_wait_for(pid_t child)
{
    int status;

    while (waitpid(child, &status, 0) < 0)
        ;
    return status;
}

pid_t kill_fork(void (*does)(struct kill_run *r), struct kill_run *r)
{
    const pid_t child = fork();

    if (child == 0) {
        does(r);
        _exit(0);
    }
    return child;
}

/* ---- Examining ------------------------------------------------------------------------------- */

void kill_examine(struct weir *w, struct probe *p)
{
    (void)alarm(HANG_S);
    probe_look(w, p);
    probe_use(w, p);
    if (p->wrong[0] == '\0' && weir_policy_set_at(w, probe_name(PROBE_LATER),
                                                  probe_limit(PROBE_LATER), PROBE_NOW, NULL, NULL))
        (void)snprintf(p->wrong, sizeof p->wrong, "a policy cannot be set");
}

void kill_examine_copy(struct kill_run *r)
{
    const struct weir_options o = {.store = r->copy_store};
    struct probe *p = &r->shared->fresh;
    struct weir_diag why = {0};
    struct weir *w;

    (void)alarm(HANG_S);
    if (weir_open(&w, &o, &why) != 0)
        (void)snprintf(p->wrong, sizeof p->wrong, "cannot be opened: %.200s", why.text);
    else
        kill_examine(w, p);
}

/* ---- Judging --------------------------------------------------------------------------------- */

int kill_outcome_of(const struct kill_run *r, const struct probe *p)
{
    for (int i = 0; i < r->outcomes; i++)
        if (probe_same(p, &r->shared->outcome[i]))
            return i;
    return -1;
}

bool kill_complain(struct kill_run *r, size_t k, const char *who, const char *what)
{
    if (r->failed++ < COMPLAINTS)
        (void)printf("  FAIL at point %zu of %zu, %s: %s\n", k, r->trace->n, who, what);
    return false;
}

bool kill_judge(struct kill_run *r, size_t k, const char *who, struct probe *p, int status)
{
    char text[400];

    if (p->worst_ns > r->worst_ns)
        r->worst_ns = p->worst_ns;
    if (WIFSIGNALED(status)) {
        (void)snprintf(text, sizeof text, "died of %s", strsignal(WTERMSIG(status)));
        return kill_complain(r, k, who, text);
    }
    if (p->wrong[0] != '\0')
        return kill_complain(r, k, who, p->wrong);
    if (!p->done || status != 0)
        return kill_complain(r, k, who, "did not come to an end");
    if (kill_outcome_of(r, p) >= 0)
        return true;
    (void)snprintf(text, sizeof text, "neither before nor after; other than before:");
    probe_differ(p, &r->shared->outcome[0], text + strlen(text), sizeof text - strlen(text));
    return kill_complain(r, k, who, text);
}

/* ---- Points ---------------------------------------------------------------------------------- */

/* Which of the points from `from` to before `to` a victim reaches with the fewest traps. Kills at
 * points between two changes leave the same behind, so that one of them will do. */
static size_t cheapest(const struct step_trace *t, size_t from, size_t to)
{
    size_t best = from;

    for (size_t k = from; k < to && k < t->n; k++)
        if (t->point[k].cost < t->point[best].cost)
            best = k;
    return best;
}

bool kill_run_points(struct kill_run *r, const struct kill_options *o,
                     void (*kill_at)(struct kill_run *, size_t))
{
    const struct step_trace *t = r->trace;
    const size_t stride = o->all ? 1 : 1 + t->n / o->points;
    size_t between = cheapest(t, 0, stride - o->seed % stride);

    for (size_t k = 0; k < t->n; k++) {
        if (t->point[k].changed || k == between)
            kill_at(r, k);
        if ((k + 1 + o->seed) % stride == 0)
            between = cheapest(t, k + 1, k + 1 + stride);
    }
    (void)printf("  %zu instructions, %zu of them change the file; killed at %zu: undone %zu, done "
                 "%zu; longest wait %.3f ms\n",
                 t->n, step_changes(t), r->tried - r->survived, r->undone,
                 r->tried - r->undone - r->failed, (double)r->worst_ns / 1e6);
    /* Here and there a step depends on the clock: a victim then goes another way. */
    if (r->survived * 2 > r->tried)
        return kill_complain(r, 0, "victim", "too many points were not reached again");
    return r->failed == 0;
}
