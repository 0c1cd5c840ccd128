/* Workers hammer one file and are killed at random, thousands of times a minute:
 * `kill_random [--seconds N] [--seed N]`.
 *
 * Checked while it goes on, by workers that are not killed: no call takes longer than a second and
 * no key is busy for longer; no error but WEIR_EBUSY; unused keys stay exactly as they are. Checked
 * at the end, of every key that was used:
 *   (1) No grant is lost that a worker lived to report: used >= reported.
 *   (2) No event is charged without a request: used <= reported + those in flight at a kill.
 *   (3) A limit that denies never grants more than its law: reported <= burst + elapsed / T; and
 *       kills cost at most what was in flight.
 *   (4) Two keys that are always taken together have been used equally often.
 *   (5) No live key was evicted.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"
#include "soak.h"
#include "stopped.h"

static struct {
    int64_t seconds;
    uint64_t seed;
} options = {.seconds = 5};

static struct soak_board *board;
static char store[FOLDER_PATH];
static pid_t worker[SLOTS];
static uint64_t kills, random_state;

static uint64_t roll(uint64_t sides)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % sides;
}

static int wait_for(pid_t child)
{
    int status;

    while (waitpid(child, &status, 0) < 0)
        ;
    return status;
}

/* ---- Killing --------------------------------------------------------------------------------- */

static void start(int slot)
{
    const uint64_t seed = roll(UINT32_MAX);

    worker[slot] = fork();
    if (worker[slot] != 0)
        return;
    (void)!nice(5); /* so that the killer gets the processor when it wants it */
    soak_worker(store, board, slot, seed);
    _exit(0);
}

/* What the dead one had in flight may have been granted. */
static void bury(int slot)
{
    const int status = wait_for(worker[slot]);

    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        soak_wrong(board, "a worker ended by itself, with status %x", (unsigned)status);
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < IN_FLIGHT; i++) {
            const int id = atomic_exchange(&board->slot[slot][t].in_flight[i], 0) - 1;

            if (id >= 0)
                atomic_fetch_add(&board->book[id].maybe, 1);
        }
    kills++;
}

static void kill_and_kill(int64_t until_ns)
{
    for (int i = 0; i < SLOTS; i++)
        start(i);
    while (soak_real_ns() < until_ns) {
        const int slot = (int)roll(SLOTS - SURVIVORS);
        const struct timespec nap = {0, (long)roll(roll(4) ? 3000000 : 300000)};

        (void)nanosleep(&nap, NULL);
        (void)kill(worker[slot], SIGKILL);
        bury(slot);
        start(slot);
    }
    for (int i = 0; i < SLOTS - SURVIVORS; i++) {
        (void)kill(worker[i], SIGKILL);
        bury(i);
    }
    atomic_store(&board->stop, true);
    for (int i = SLOTS - SURVIVORS; i < SLOTS; i++)
        if (wait_for(worker[i]) != 0)
            soak_wrong(board, "a survivor did not survive");
}

/* ---- Before and after ------------------------------------------------------------------------ */

static void charge_calm(void)
{
    struct weir_policy *policy[POLICIES];
    struct weir *w = soak_open_store(store, board, policy);

    for (int i = 0; i < CALM && w; i++) {
        char key[16];
        const struct weir_request rq = soak_idle_request(policy, i, key);
        struct weir_verdict v;

        if (weir_take_at(w, &rq, T0, &v) != 0 || !v.allowed)
            soak_wrong(board, "calm key %d cannot be charged", i);
    }
    weir_close(w);
}

static int64_t used(struct weir *w, struct weir_request rq)
{
    struct weir_verdict v;

    rq.cost = 0;
    if (weir_peek_at(w, &rq, atomic_load(&board->now_ns), &v) == 0)
        return v.limit - v.remaining;
    soak_wrong(board, "a key cannot be looked at afterwards");
    return 0;
}

static void check_book(struct weir *w, struct weir_policy *const policy[POLICIES], int id)
{
    const int64_t reported = atomic_load(&board->book[id].reported),
                  maybe = atomic_load(&board->book[id].maybe);
    const int64_t bound = TIGHT_MOST + (atomic_load(&board->now_ns) - T0) / TIGHT_NS;
    char key[16];
    int64_t is;

    if (id == ID_TIGHT) {
        if (reported > bound)
            soak_wrong(board, "%lld granted, and the law allows %lld", (long long)reported,
                       (long long)bound);
        if (reported + maybe < bound - SLOTS * THREADS)
            soak_wrong(board, "%lld granted, %lld perhaps, and the law allows %lld: some were lost",
                       (long long)reported, (long long)maybe, (long long)bound);
        return;
    }
    is = used(w, soak_request(policy, id, key));
    if (is < reported || is > reported + maybe)
        soak_wrong(board, "key %d: %lld used, %lld reported and %lld in flight", id, (long long)is,
                   (long long)reported, (long long)maybe);
}

static void check_all(void)
{
    struct weir_policy *policy[POLICIES];
    struct weir *w = soak_open_store(store, board, policy);
    struct weir_stats stats;

    if (!w)
        return;
    for (int id = 0; id < IDS; id++)
        check_book(w, policy, id);
    for (int i = 0; i < PAIRS; i++) {
        char key[16];
        const int64_t a = used(w, soak_request(policy, ID_PAIR_A + i, key));
        const int64_t b = used(w, soak_request(policy, ID_PAIR_B + i, key));

        if (a != b)
            soak_wrong(board, "pair %d: %lld and %lld used", i, (long long)a, (long long)b);
    }
    for (int i = 0; i < CALM; i++) {
        char key[16];

        if (used(w, soak_idle_request(policy, i, key)) != 1 + i)
            soak_wrong(board, "calm key %d is not what it was", i);
    }
    (void)weir_stats_at(w, T0, &stats);
    if (stats.evicted > 0)
        soak_wrong(board, "%llu live keys were evicted", (unsigned long long)stats.evicted);
    (void)printf("  %llu recovered\n", (unsigned long long)stats.recovered);
    (void)fflush(stdout);
    weir_close(w);
}

static void in_child(void (*does)(void))
{
    const pid_t child = fork();

    if (child == 0) {
        (void)alarm(60);
        does();
        _exit(0);
    }
    if (wait_for(child) != 0)
        soak_wrong(board, "a process that looks died");
}

static void read_options(int argc, char **argv)
{
    options.seed = (uint64_t)time(NULL);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            options.seconds = strtoll(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            options.seed = strtoull(argv[++i], NULL, 10);
        else
            exit(2);
    }
}

int main(int argc, char **argv)
{
    int failed = 0;

    read_options(argc, argv);
    random_state = options.seed;
    folder_open();
    folder_store(store, "hammered");
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    atomic_store(&board->now_ns, T0);
    (void)printf("seed %llu\n", (unsigned long long)options.seed);
    (void)fflush(stdout);
    in_child(charge_calm);
    kill_and_kill(soak_real_ns() + options.seconds * SECOND);
    in_child(check_all);
    (void)printf(
        "  %llu kills, %llu decisions, %llu changes of limit, %llu times busy; longest wait of "
        "a survivor %.3f ms\n",
        (unsigned long long)kills, (unsigned long long)board->decisions,
        (unsigned long long)board->changes, (unsigned long long)board->busy,
        (double)board->worst_ns / 1e6);
    if (board->wrong > 0) {
        (void)printf("  FAIL %llu times; first: %s\n", (unsigned long long)board->wrong,
                     board->first_wrong);
        failed++;
    }
    failed += !stopped_worker();
    failed += !stopped_setter();
    (void)printf("kill-random: %d passed, %d failed\n", 3 - failed, failed);
    return failed != 0;
}
