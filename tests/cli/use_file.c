/* Uses a state file as a program does, for the tests of `weir store`.
 *
 *     use_file make FILE MAX_KEYS MAX_BYTES MAX_POLICIES   makes it; 0 is the default use_file set
 *     FILE NAME LIMIT                         sets a policy use_file forget FILE NAME use_file take
 *     FILE NAME PREFIX N COST                keys PREFIX0 ..., at the store's time use_file ask
 *     FILE NAME PREFIX N COST NOW_NS VERB     peeks or takes at NOW_NS, prints the verdicts
 *     use_file hold FILE NAME                              decides, prints a line, stays until
 *     stdin ends use_file enter FILE NAME PREFIX N                    enters keys, prints a line,
 *     stays until stdin ends use_file open FILE                                   only opens it,
 *     prints a line, and stays use_file cut FILE NAME KEY                           dies in the
 *     middle of a decision
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine.h"

static void fail(const char *what)
{
    (void)fprintf(stderr, "use_file: %s\n", what);
    exit(1);
}

static int64_t number(const char *text)
{
    return strtoll(text, NULL, 10);
}

static struct weir *open_file(const char *file, struct weir_options o)
{
    char store[4096];
    struct weir *w;
    struct weir_diag why;

    (void)snprintf(store, sizeof store, "file:%s", file);
    o.store = store;
    if (weir_open(&w, &o, &why) != 0)
        fail(why.text);
    return w;
}

static struct weir *open_old(const char *file)
{
    return open_file(file, (struct weir_options){0});
}

static struct weir_policy *policy_of(struct weir *w, const char *name)
{
    struct weir_policy *p = weir_policy_find(w, name);

    if (!p)
        fail("no such policy");
    return p;
}

static int use_make(char **a)
{
    weir_close(open_file(a[0], (struct weir_options){.max_keys = (uint64_t)number(a[1]),
                                                     .max_memory = (uint64_t)number(a[2]),
                                                     .max_policies = (uint32_t)number(a[3])}));
    return 0;
}

static int use_set(char **a)
{
    struct weir *w = open_old(a[0]);
    struct weir_diag why;

    if (weir_policy_set(w, a[1], a[2], NULL, &why) != 0)
        fail(why.text);
    weir_close(w);
    return 0;
}

static int use_forget(char **a)
{
    struct weir *w = open_old(a[0]);

    weir_policy_forget(w, policy_of(w, a[1]));
    weir_close(w);
    return 0;
}

static struct weir_request request(struct weir_policy *p, const char *prefix, int64_t i, char *key,
                                   size_t cap)
{
    (void)snprintf(key, cap, "%s%" PRId64, prefix, i);
    return weir_request_of(p, key, strlen(key));
}

static int use_take(char **a)
{
    struct weir *w = open_old(a[0]);
    struct weir_policy *p = policy_of(w, a[1]);
    struct weir_verdict v;
    char key[64];

    for (int64_t i = 0; i < number(a[3]); i++) {
        struct weir_request rq = request(p, a[2], i, key, sizeof key);

        rq.cost = number(a[4]);
        if (weir_take(w, &rq, &v) != 0)
            fail("take");
    }
    weir_close(w);
    return 0;
}

static int use_ask(char **a)
{
    struct weir *w = open_old(a[0]);
    struct weir_policy *p = policy_of(w, a[1]);
    const bool takes = strcmp(a[6], "take") == 0;
    struct weir_verdict v;
    char key[64];

    for (int64_t i = 0; i < number(a[3]); i++) {
        struct weir_request rq = request(p, a[2], i, key, sizeof key);

        rq.cost = number(a[4]);
        if ((takes ? weir_take_at : weir_peek_at)(w, &rq, number(a[5]), &v) != 0)
            fail("ask");
        (void)printf("%s %s %d %s %d %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n",
                     a[1], key, v.allowed, weir_reason_name(v.reason), v.which, v.limit,
                     v.remaining, v.wait_ns, v.retry_after_ns, v.reset_after_ns);
    }
    weir_close(w);
    return 0;
}

/* Waits until standard input ends. */
static void use_stay(void)
{
    (void)puts("ready");
    (void)fflush(stdout);
    (void)getchar();
}

static int only_open(char **a)
{
    struct weir *w = open_old(a[0]);

    use_stay();
    weir_close(w);
    return 0;
}

static int use_hold(char **a)
{
    struct weir *w = open_old(a[0]);
    const struct weir_request rq = weir_request_of(policy_of(w, a[1]), "held", 4);
    struct weir_verdict v;

    if (weir_take(w, &rq, &v) != 0)
        fail("take");
    use_stay();
    weir_close(w);
    return 0;
}

/* Calls in flight, which end with the process. */
static int use_enter(char **a)
{
    struct weir *w = open_old(a[0]);
    struct weir_policy *p = policy_of(w, a[1]);
    const int64_t n = number(a[3]);
    struct weir_ticket *ticket = calloc((size_t)n, sizeof *ticket);
    struct weir_verdict v;
    char key[64];

    if (!ticket)
        fail("out of memory");
    for (int64_t i = 0; i < n; i++) {
        const struct weir_request rq = request(p, a[2], i, key, sizeof key);

        if (weir_enter(w, &rq, &ticket[i], &v) != 0)
            fail("enter");
    }
    use_stay();
    for (int64_t i = 0; i < n; i++)
        if (weir_exit(w, &ticket[i], WEIR_SUCCESS) != 0)
            fail("exit");
    free(ticket);
    weir_close(w);
    return 0;
}

/* Locks the buckets of the key, as a decision about several keys does. */
static struct weir__state *lock_key(struct weir__table *t, struct weir__owner *owner,
                                    uint64_t fingerprint, struct weir__access *h)
{
    const int n = weir__table_candidates(t, fingerprint, h);

    for (int i = 0; i < n; i++) {
        weir__journal_intend(owner, i, weir__bucket_lock(h->bucket[i]));
        if (weir__lock_take(weir__bucket_lock(h->bucket[i]), owner) != 0)
            return NULL;
    }
    return weir__table_search_locked(t, fingerprint, h);
}

/* Leaves the file as a kill between the journal entry and the end of the decision would. */
static int use_cut(char **a)
{
    struct weir *w = open_old(a[0]);
    struct weir_policy *p = policy_of(w, a[1]);
    const struct weir_request rq = weir_request_of(p, a[2], strlen(a[2]));
    struct weir__compiled_term *c = &atomic_load(&p->revision)->term[0];
    struct weir__owner *owner = weir__store_owner(w->store);
    struct weir__access h;
    struct weir__state *state =
        owner ? lock_key(c->table, owner, weir__fingerprint(c, &rq), &h) : NULL;

    if (!state)
        fail("no such key");
    weir__table_note(c->table, owner, &h);
    state->fresh_ns = 1;
    _exit(0);
}

static const struct use_verb {
    const char *name;
    int arguments;
    int (*run)(char **a);
} VERBS[] = {{"make", 4, use_make},     {"enter", 4, use_enter}, {"set", 3, use_set},
             {"forget", 2, use_forget}, {"take", 5, use_take},   {"ask", 7, use_ask},
             {"hold", 2, use_hold},     {"open", 1, only_open},  {"cut", 3, use_cut}};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof VERBS / sizeof VERBS[0]; i++)
        if (strcmp(argv[1], VERBS[i].name) == 0 && argc - 2 == VERBS[i].arguments)
            return VERBS[i].run(argv + 2);
    fail("wrong arguments");
}
