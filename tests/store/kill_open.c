/* Processes that are killed while they open a file.
 *
 * A process that makes a file works on one without a name until it is whole; so a kill leaves
 * either nothing or a file that is good. The instructions from the naming on are tried one by one;
 * the hundred thousands before that at random times.
 *
 * A process that opens a file after a reboot sets its time again, and undoes what dead owners left
 * behind.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/store/format.h"
#include "os/clock.h"

#include "kill_run.h"

#define MAKING_STEPS  12000   /* that are tried from where it becomes interesting */
#define OPENING_STEPS 1000000 /* more than there are from there */

/* ---- Making ---------------------------------------------------------------------------------- */

static int make(void *run)
{
    struct kill_run *r = run;
    const struct weir_options o = {.store = r->scene_store.store,
                                   .max_keys = 16,
                                   .max_policies = PROBE_ALL,
                                   .max_memory = 32 << 20};
    struct weir *w;

    return weir_open(&w, &o, NULL);
}

static struct step_deed making(struct kill_run *r)
{
    return (struct step_deed){.act = make, .arg = r, .from = (const void *)(uintptr_t)linkat};
}

static void rehearse_making(struct kill_run *r)
{
    const struct step_deed d = making(r);

    step_rehearse(&d, r->trace);
}

/* A stranger makes it, or finds it, and uses it; in a child. */
static void use_store(struct kill_run *r)
{
    const struct weir_options o = {.store = r->scene_store.store,
                                   .max_keys = 16,
                                   .max_policies = PROBE_ALL,
                                   .max_memory = 32 << 20};
    struct probe *p = &r->shared->fresh;
    struct weir_diag why = {0};
    struct weir *w;

    (void)alarm(20);
    if (weir_open(&w, &o, &why) != 0) {
        (void)snprintf(p->wrong, sizeof p->wrong, "cannot be opened: %.200s", why.text);
        return;
    }
    for (int i = 0; i < PROBE_LATER && p->wrong[0] == '\0'; i++)
        if (weir_policy_set_at(w, probe_name((enum probe_policy)i),
                               probe_limit((enum probe_policy)i), PROBE_T0, NULL, &why) != 0)
            (void)snprintf(p->wrong, sizeof p->wrong, "no policies: %.200s", why.text);
    kill_examine(w, p);
}

/* What a kill left is nothing, or a file that all can use. */
static void look_at_what_is_left(struct kill_run *r, size_t k)
{
    const bool there = access(r->scene_store.path, F_OK) == 0;

    memset(&r->shared->fresh, 0, sizeof r->shared->fresh);
    if (folder_count() != there)
        (void)kill_complain(r, k, "victim", "left other files behind");
    (void)kill_judge(r, k, "next", &r->shared->fresh, kill_wait_for(kill_fork(use_store, r)));
    r->undone += !there;
    r->tried++;
    (void)unlink(r->scene_store.path);
}

static void kill_maker_at(struct kill_run *r, size_t k)
{
    const struct step_deed d = making(r);
    const pid_t victim = fork();

    if (victim == 0) {
        step_die_at(&d, r->trace, k);
        _exit(0);
    }
    r->survived += kill_wait_for(victim) == 0;
    look_at_what_is_left(r, k);
}

static void make_in_child(struct kill_run *r)
{
    (void)make(r);
}

static void kill_maker_after(struct kill_run *r, int64_t ns)
{
    const struct timespec nap = {0, (long)ns};
    const pid_t victim = kill_fork(make_in_child, r);

    (void)nanosleep(&nap, NULL);
    (void)kill(victim, SIGKILL);
    (void)kill_wait_for(victim);
    look_at_what_is_left(r, 0);
}

bool kill_makers(struct step_trace *trace, struct kill_shared *shared, const struct kill_options *o)
{
    struct kill_run r = {.trace = trace, .shared = shared, .outcomes = 1};

    (void)printf("open of a new file\n");
    (void)weir_now(NULL);
    memset(shared, 0, sizeof *shared);
    folder_path(r.scene_store.path, "new");
    folder_store(r.scene_store.store, "new");
    trace->cap = MAKING_STEPS;
    if (kill_wait_for(kill_fork(rehearse_making, &r)) != 0)
        return kill_complain(&r, 0, "rehearsal", "went wrong");
    step_index(trace);
    (void)unlink(r.scene_store.path);
    if (kill_wait_for(kill_fork(use_store, &r)) != 0)
        return kill_complain(&r, 0, "rehearsal", "of the use went wrong");
    (void)unlink(r.scene_store.path);
    shared->outcome[0] = shared->fresh;
    srand48((long)o->seed);
    for (size_t i = 0; i < 2 * o->points; i++)
        kill_maker_after(&r, lrand48() % 2000000);
    return kill_run_points(&r, o, kill_maker_at);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int open_copy(void *run)
{
    struct kill_run *r = run;
    const struct weir_options o = {.store = r->copy_store};
    struct weir *w;

    return weir_open(&w, &o, NULL);
}

/* From where it asks for the time that the file's is to be. */
static struct step_deed opening(struct kill_run *r)
{
    return (struct step_deed){.act = open_copy,
                              .arg = r,
                              .from = (const void *)(uintptr_t)weir__clock_wall,
                              .watch = {{r->copy.at, image_bytes(&r->copy)}}};
}

static void rehearse_opening(struct kill_run *r)
{
    const struct step_deed d = opening(r);

    step_rehearse(&d, r->trace);
}

static void kill_opener_at(struct kill_run *r, size_t k)
{
    const struct step_deed d = opening(r);
    pid_t victim;

    image_restore(&r->copy, &r->start);
    memset(&r->shared->fresh, 0, sizeof r->shared->fresh);
    victim = fork();
    if (victim == 0) {
        step_die_at(&d, r->trace, k);
        _exit(0);
    }
    r->survived += kill_wait_for(victim) == 0;
    r->tried++;
    if (kill_judge(r, k, "next", &r->shared->fresh, kill_wait_for(kill_fork(kill_examine_copy, r))))
        r->undone++;
}

static const struct scene *scene_named(const char *part)
{
    for (int i = 0; i < scenes_count; i++)
        if (strstr(scenes[i].name, part))
            return &scenes[i];
    abort();
}

static void look_at_copy(struct kill_run *r)
{
    kill_examine_copy(r);
    r->shared->outcome[0] = r->shared->fresh;
}

bool kill_openers(struct step_trace *trace, struct kill_shared *shared,
                  const struct kill_options *o)
{
    struct kill_run r = {.trace = trace, .shared = shared, .outcomes = 1};
    struct weir__header *h;
    bool good = false;

    (void)printf("open of a file that a dead one left, after a reboot\n");
    memset(shared, 0, sizeof *shared);
    scene_open(&r.scene_store, scene_named("in a dead owner's slot"));
    folder_path(r.copy_path, "copy");
    folder_store(r.copy_store, "copy");
    r.copy = image_open(r.copy_path);
    h = (struct weir__header *)(void *)r.scene_store.file.at;
    h->boot_id[0] ^= 1;
    image_save(&r.scene_store.file, &r.start);
    image_restore(&r.copy, &r.start);
    trace->cap = OPENING_STEPS;
    if (kill_wait_for(kill_fork(rehearse_opening, &r)) != 0 || !trace->whole ||
        step_changes(trace) == 0) {
        (void)kill_complain(&r, 0, "rehearsal", "went wrong");
    } else {
        step_index(trace);
        image_restore(&r.copy, &r.start);
        (void)kill_wait_for(kill_fork(look_at_copy, &r));
        good = kill_run_points(&r, o, kill_opener_at);
    }
    image_free(&r.start);
    image_close(&r.copy);
    (void)unlink(r.copy_path);
    scene_close(&r.scene_store);
    return good;
}
