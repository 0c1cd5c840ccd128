/* A process is killed at every instruction that could matter, and the other processes must not
 * notice: `kill_each [--seed N] [--points N] [--all] [--only TEXT]`.
 *
 * For each scene a rehearsal finds after which instructions the shared memory has changed. A
 * process is then killed after each of these, and after others in between: one of each stretch of
 * equal length, beginning where the seed says, so that runs with other seeds try others. Two
 * processes look at what it leaves behind: a witness that had the file open and was an owner all
 * the time, and one that opens it afresh (a copy of it, made before the witness has touched
 * anything). Every other time an heir has taken over the dead owner's number before that, and
 * lives.
 *
 * Checked, for both:
 *   (1) Every key of every policy answers a peek and then a take with 0, within a second.
 *   (2) All keys together stand as they did before the deed or as they do after it (a batch: after
 *       some of its first requests). So no other key is touched, an eviction has happened as a
 *       whole or not, and three keys are charged together or not at all.
 *   (3) Both find the same.
 *   (4) Policies can be set afterwards, also one that needs a new table.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/store/format.h"

#include "kill_run.h"

#define POINTS_MOST 1000000 /* of a deed */
#define SEATS       5       /* journals that a scene could use */

#define JOBS 2 /* at a time */

/* What the jobs share. */
struct kill_tally {
    _Atomic int next; /* the scene that a job takes next */
    _Atomic int passed, failed, done;
};

static struct kill_options options = {.points = 50};

static int parts_of(const struct scene *s)
{
    return s->parts ? s->parts : 1;
}

/* By a decision on another key, so that nothing in the journal is right already. */
static void take_a_seat(struct scene_store *b)
{
    const struct weir_request rq = probe_request(b->w, PROBE_WARM, 2);
    struct weir_verdict v;

    if (!b->scene->unseated)
        (void)weir_peek_at(b->w, &rq, PROBE_NOW, &v);
}

/* ---- Before the killing ---------------------------------------------------------------------- */

static uint64_t evicted(struct weir *w)
{
    struct weir_stats stats = {0};

    (void)weir_stats_at(w, PROBE_NOW, &stats);
    return stats.evicted;
}

/* How all stand after the first `parts` of the deed. */
static bool foresee(struct kill_run *r, int parts)
{
    struct scene_store *b = &r->scene_store;
    struct probe *p = &r->shared->outcome[parts];
    const pid_t child = fork();

    if (child == 0) {
        const uint64_t before = evicted(b->w);

        take_a_seat(b);
        if (parts > 0 && b->scene->act(b, parts) != 0)
            _exit(3);
        probe_look(b->w, p);
        _exit(parts == parts_of(b->scene) && evicted(b->w) - before != b->scene->evicts);
    }
    if (kill_wait_for(child) != 0 || p->wrong[0] != '\0')
        return false;
    image_restore(&r->scene_store.file, &r->start);
    return parts == 0 || !probe_same(p, &r->shared->outcome[parts - 1]);
}

static int act(void *bed)
{
    struct scene_store *b = bed;

    return b->scene->act(b, parts_of(b->scene));
}

static struct step_deed deed_of(struct kill_run *r)
{
    const struct weir__header *h =
        (const struct weir__header *)(const void *)r->scene_store.file.at;
    const char *at = r->scene_store.file.at;

    return (struct step_deed){
        .act = act,
        .arg = &r->scene_store,
        .watch = {{at, h->journals_at + SEATS * sizeof(struct weir__journal)},
                  {at + h->directory_at, image_bytes(&r->scene_store.file) - h->directory_at}},
    };
}

static void rehearse_in_child(struct kill_run *r)
{
    const struct step_deed d = deed_of(r);

    take_a_seat(&r->scene_store);
    step_rehearse(&d, r->trace);
}

static bool rehearse(struct kill_run *r)
{
    if (kill_wait_for(kill_fork(rehearse_in_child, r)) != 0 || r->trace->result != 0 ||
        !r->trace->whole)
        return false;
    step_index(r->trace);
    image_restore(&r->scene_store.file, &r->start);
    return true;
}

/* ---- A kill ---------------------------------------------------------------------------------- */

/* A process that becomes an owner and then waits for a word, or for the end. */
static pid_t seat_one(struct kill_run *r, void (*then)(struct kill_run *), int *go)
{
    int ready[2], start[2];
    char byte = 0;
    pid_t child;

    if (pipe(ready) != 0 || pipe(start) != 0)
        exit(2);
    child = fork();
    if (child == 0) {
        (void)close(start[1]);
        take_a_seat(&r->scene_store);
        if (write(ready[1], &byte, 1) != 1)
            _exit(3);
        if (read(start[0], &byte, 1) == 1)
            then(r);
        _exit(0);
    }
    if (read(ready[0], &byte, 1) != 1)
        exit(2);
    (void)close(ready[0]);
    (void)close(ready[1]);
    (void)close(start[0]);
    *go = start[1];
    return child;
}

static void witness(struct kill_run *r)
{
    kill_examine(r->scene_store.w, &r->shared->witness);
}

static void kill_victim(struct kill_run *r, size_t k)
{
    const struct step_deed d = deed_of(r);
    const pid_t victim = fork();
    int status;

    if (victim == 0) {
        take_a_seat(&r->scene_store);
        step_die_at(&d, r->trace, k);
        _exit(0);
    }
    status = kill_wait_for(victim);
    r->tried++;
    r->survived += status == 0;
    if (status != 0 && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
        (void)kill_complain(r, k, "victim", "died of something else");
}

/* The witness and the process that opens the file look at the same time. */
static void look_at_what_is_left(struct kill_run *r, size_t k, pid_t seated, int go)
{
    struct kill_shared *s = r->shared;
    const pid_t fresh = kill_fork(kill_examine_copy, r);
    int seen[2];

    if (write(go, "g", 1) != 1)
        exit(2);
    (void)close(go);
    seen[0] = kill_wait_for(seated);
    seen[1] = kill_wait_for(fresh);
    if (!kill_judge(r, k, "witness", &s->witness, seen[0]) ||
        !kill_judge(r, k, "fresh open", &s->fresh, seen[1]))
        return;
    r->undone += kill_outcome_of(r, &s->witness) == 0;
    if (!probe_same(&s->witness, &s->fresh))
        (void)kill_complain(r, k, "both", "the witness finds what who opens it does not");
}

static void kill_at(struct kill_run *r, size_t k)
{
    const bool inherited = r->tried % 2 && !r->scene_store.scene->unseated;
    int go, end = -1;
    pid_t seated, heir = 0;

    image_restore(&r->scene_store.file, &r->start);
    memset(&r->shared->witness, 0, sizeof r->shared->witness);
    memset(&r->shared->fresh, 0, sizeof r->shared->fresh);
    seated = seat_one(r, witness, &go);
    kill_victim(r, k);
    image_copy(&r->scene_store.file, &r->copy);
    if (inherited)
        heir = seat_one(r, witness, &end);
    look_at_what_is_left(r, k, seated, go);
    if (inherited) {
        (void)close(end);
        (void)kill_wait_for(heir);
    }
}

/* ---- Scenes ---------------------------------------------------------------------------------- */

static bool play(struct kill_run *r)
{
    for (int i = 0; i < r->outcomes; i++)
        if (!foresee(r, i)) {
            (void)printf("  FAIL the scene does not play as written (part %d: %s)\n", i,
                         r->shared->outcome[i].wrong);
            return false;
        }
    if (!rehearse(r)) {
        (void)printf("  FAIL the rehearsal went wrong: %s\n", weir_error_name(r->trace->result));
        return false;
    }
    return kill_run_points(r, &options, kill_at);
}

static bool run_scene(const struct scene *s, struct step_trace *trace, struct kill_shared *shared)
{
    struct kill_run r = {.trace = trace, .shared = shared, .outcomes = parts_of(s) + 1};
    bool good;

    (void)printf("%s\n", s->name);
    memset(shared, 0, sizeof *shared);
    scene_open(&r.scene_store, s);
    folder_path(r.copy_path, "copy");
    folder_store(r.copy_store, "copy");
    r.copy = image_open(r.copy_path);
    image_save(&r.scene_store.file, &r.start);
    good = play(&r);
    image_free(&r.start);
    image_close(&r.copy);
    (void)unlink(r.copy_path);
    scene_close(&r.scene_store);
    return good;
}

/* ---- The program ----------------------------------------------------------------------------- */

static void read_options(int argc, char **argv)
{
    options.seed = (uint64_t)time(NULL);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--all") == 0)
            options.all = true;
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            options.seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--points") == 0 && i + 1 < argc)
            options.points = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            options.only = argv[++i];
        else
            exit(2);
    }
}

static bool is_wanted(const char *name)
{
    return !options.only || strstr(name, options.only);
}

/* The last scenes take longest, so they come first. */
static bool run_one(int i, struct step_trace *trace, struct kill_shared *shared)
{
    if (i == 0)
        return kill_makers(trace, shared, &options);
    if (i == 1)
        return kill_openers(trace, shared, &options);
    return run_scene(&scenes[scenes_count + 1 - i], trace, shared);
}

/* One job: the next scene that no other has, in a directory of its own, until there is none. */
static void run_share(struct kill_tally *tally)
{
    struct step_trace *trace = step_trace_open(POINTS_MOST);
    struct kill_shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int i;

    folder_open();
    while ((i = atomic_fetch_add(&tally->next, 1)) < scenes_count + 2) {
        if (!is_wanted(i < 2 ? "open of a file, open of a new file"
                             : scenes[scenes_count + 1 - i].name))
            continue;
        trace->cap = POINTS_MOST;
        (void)atomic_fetch_add(run_one(i, trace, shared) ? &tally->passed : &tally->failed, 1);
        (void)fflush(stdout);
    }
    (void)atomic_fetch_add(&tally->done, 1);
}

int main(int argc, char **argv)
{
    struct kill_tally *tally =
        mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child[JOBS];

    read_options(argc, argv);
    if (!step_works()) {
        (void)printf("skipped: no way to step through instructions on this machine\n");
        (void)printf("kill-each: 1 passed, 0 failed\n");
        return 0;
    }
    (void)printf("seed %llu\n", (unsigned long long)options.seed);
    (void)fflush(stdout);
    for (int i = 0; i < JOBS; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            run_share(tally);
            exit(0);
        }
    }
    for (int i = 0; i < JOBS; i++)
        (void)kill_wait_for(child[i]);
    tally->failed += JOBS - tally->done;
    (void)printf("kill-each: %d passed, %d failed\n", tally->passed, tally->failed);
    return tally->failed != 0;
}
