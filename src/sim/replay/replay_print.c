/* Prints what a replay found, for people. */
#include <string.h>

#include "base/num.h"
#include "sim/picture/words.h"
#include "sim/replay/replay.h"

enum { KEY_COLUMNS = 40 };

/* ---- The log --------------------------------------------------------------------------------- */

static void print_unread(const struct intake *in, FILE *to)
{
    char n[WORDS_MAX];

    if (intake_unread(in) == 0)
        return;
    (void)fprintf(to, "%s lines could not be read:\n", words_count(intake_unread(in), n));
    for (int i = 0; i < in->shown; i++)
        (void)fprintf(to, "  line %lld: %s: %s\n", (long long)in->first_unread[i].line,
                      log_fault_text(in->first_unread[i].fault), in->first_unread[i].text);
    if (intake_unread(in) > in->shown)
        (void)fprintf(to, "  and %s more\n", words_count(intake_unread(in) - in->shown, n));
}

static void print_order(const struct intake *in, FILE *to)
{
    const struct arrivals *const a = &in->arrivals;
    char n[WORDS_MAX], late[WORDS_MAX];

    if (a->swapped == 0)
        return;
    (void)fprintf(to, "note: %s lines stand behind later ones", words_count(a->swapped, n));
    if (a->late == 0)
        (void)fputs("; they were sorted\n", to);
    else
        (void)fprintf(to,
                      "; %s of them by more than %d lines: they count when the clock was, which "
                      "never goes back%s\n",
                      words_count(a->late, late), ARRIVALS_WINDOW,
                      2 * a->late > in->read ? ". Is the newest line first? Then give it to tac"
                                             : "");
}

static void print_notes(const struct intake *in, FILE *to)
{
    char n[WORDS_MAX], of[WORDS_MAX];

    print_order(in, to);
    if (!*intake_key_name(in))
        (void)fputs("note: no column says who asks: all lines are one client (--key names one)\n",
                    to);
    if (intake_whole_seconds(in))
        (void)fputs("note: the times are whole seconds: all requests of a second count as "
                    "simultaneous\n",
                    to);
    if (in->refused_before > 0)
        (void)fprintf(
            to,
            "note: %s lines have status 429 or 503: something refused before, and clients "
            "that are refused ask differently\n",
            words_count(in->refused_before, n));
    if (in->crowded > 0)
        (void)fprintf(to,
                      "note: %s lines of clients beyond the first %s are left out "
                      "(--max-clients)\n",
                      words_count(in->crowded, n), words_count(in->options.max_clients, of));
}

void replay_print_log(const struct intake *in, FILE *to)
{
    const char *const path = in->options.path;
    char n[WORDS_MAX], clients[WORDS_MAX], from[WORDS_MAX], until[WORDS_MAX], span[WORDS_MAX];

    (void)fprintf(to, "%s: %s, %s requests of %s clients%s%s\n",
                  strcmp(path, "-") == 0 ? "standard input" : path, in->format.name,
                  words_count(in->read, n), words_count(roster_count(in->clients), clients),
                  *intake_key_name(in) ? " by " : "", intake_key_name(in));
    if (in->read > 0)
        (void)fprintf(to, "%s to %s UTC: %s\n", words_time(in->first_ns, from),
                      words_time(in->last_ns, until), words_span(in->last_ns - in->first_ns, span));
    print_unread(in, to);
    print_notes(in, to);
}

/* ---- One limit ------------------------------------------------------------------------------- */

static void print_whom(const struct replay *r, const struct run *run, FILE *to)
{
    uint32_t top[REPLAY_TOP_MAX];
    char key[WORDS_MAX];
    const uint32_t n = replay_whom(r, run, top);
    int width = (int)strlen("whom it hits");

    if (n == 0)
        return;
    for (uint32_t i = 0; i < n; i++) {
        const struct weir__slice text = roster_key(r->intake->clients, top[i]);

        width = (int)weir__clamp((int64_t)text.len, width, KEY_COLUMNS);
    }
    (void)fprintf(to, "\n%-*s %12s %12s %12s\n", width, "whom it hits", "asked", "passed",
                  "refused");
    for (uint32_t i = 0; i < n; i++) {
        const struct run_count *const c = &run->client[top[i]];
        char a[WORDS_MAX], p[WORDS_MAX], f[WORDS_MAX];

        (void)fprintf(to, "%-*s %12s %12s %12s\n", width,
                      words_key(roster_key(r->intake->clients, top[i]), KEY_COLUMNS, key),
                      words_count(c->asked, a), words_count(c->passed, p),
                      words_count(c->refused, f));
    }
    if (run->clients_refused > (int64_t)n)
        (void)fprintf(to, "and %lld more\n", (long long)run->clients_refused - (int64_t)n);
}

static void print_when(const struct replay *r, const struct run *run, FILE *to)
{
    uint32_t top[REPLAY_BUSIEST];
    const struct timeline *const t = &run->timeline;
    const uint32_t n = replay_when(run, top);
    char head[WORDS_MAX], length[WORDS_MAX];

    if (n == 0)
        return;
    (void)snprintf(head, sizeof head, "when (%s each)", words_span(t->row_ns, length));
    (void)fprintf(to, "\n%-26s %12s %12s %12s%s\n", head, "asked", "passed", "refused",
                  r->intake->fields.costs > 0 ? "   (costs)" : "");
    for (uint32_t i = 0; i < n; i++) {
        const struct timeline_row *const row = &t->row[top[i]];
        char at[WORDS_MAX], a[WORDS_MAX], p[WORDS_MAX], f[WORDS_MAX];

        (void)fprintf(to, "%-26s %12s %12s %12s\n", words_time((t->first + top[i]) * t->row_ns, at),
                      words_count(row->asked, a), words_count(row->passed, p),
                      words_count(row->refused, f));
    }
}

/* "7 in 1s, 140% of 5" */
static void worst_text(const struct run *run, char *text, size_t size)
{
    char most[WORDS_MAX], period[WEIR__DURATION_MAX];
    struct run_worst w;

    if (!run_worst(run, &w)) {
        (void)snprintf(text, size, "-");
        return;
    }
    (void)snprintf(text, size, "%s%s in %s (%lld%%)", run->worst_ends ? "over " : "",
                   words_count(w.most, most), weir__duration_text(w.period_ns, period),
                   (long long)(int64_t)(weir__wide(w.most) * 100 / weir__wide(w.count)));
}

static void print_cost(const struct run_count *c, FILE *to)
{
    char passed[WORDS_MAX], asked[WORDS_MAX], share[WORDS_MAX];

    (void)fprintf(to, "  cost passed    %s of %s (%s)\n", words_count(c->cost_passed, passed),
                  words_count(c->cost_asked, asked),
                  words_share(c->cost_passed, c->cost_asked, share));
}

static void print_limit(const struct replay *r, const struct run *run, FILE *to)
{
    const struct run_count *const c = &run->all;
    char n[WORDS_MAX], of[WORDS_MAX], share[WORDS_MAX], more[WORDS_MAX], worst[160];
    const int64_t clients = roster_count(r->intake->clients);

    worst_text(run, worst, sizeof worst);
    (void)fprintf(to, "\n%s\n", run->text);
    (void)fprintf(to, "  passed         %s of %s (%s)", words_count(c->passed, n),
                  words_count(c->asked, of), words_share(c->passed, c->asked, share));
    if (c->delayed > 0)
        (void)fprintf(to, ", %s of them after a wait, at most %s", words_count(c->delayed, more),
                      words_span(run->longest_wait_ns, share));
    (void)fprintf(to, "\n  refused        %s (%s)\n", words_count(c->refused, n),
                  words_share(c->refused, c->asked, share));
    if (r->intake->fields.costs > 0)
        print_cost(c, to);
    (void)fprintf(to, "  ever refused   %s of %s clients (%s)\n",
                  words_count(run->clients_refused, n), words_count(clients, of),
                  words_share(run->clients_refused, clients, share));
    (void)fprintf(to, "  worst window   %s\n", worst);
    if (run->shadowed > 0)
        (void)fprintf(to, "  shadow         %s passed that would be refused without it\n",
                      words_count(run->shadowed, n));
    if (run->crowded > 0)
        (void)fprintf(to, "  overflow       %s decided without a place of their own\n",
                      words_count(run->crowded, n));
    print_whom(r, run, to);
    print_when(r, run, to);
}

/* ---- Several limits -------------------------------------------------------------------------- */

static void print_compared(const struct replay *r, FILE *to)
{
    const int64_t clients = roster_count(r->intake->clients);
    int width = (int)strlen("limit");

    for (int i = 0; i < r->runs; i++)
        width = (int)weir__max(width, (int64_t)strlen(r->run[i].text));
    (void)fprintf(to, "\n%-*s %12s %20s %18s %26s %10s %13s\n", width, "limit", "passed", "refused",
                  "clients refused", "worst window", "wrongful", "longest wait");
    for (int i = 0; i < r->runs; i++) {
        const struct run *const run = &r->run[i];
        char passed[WORDS_MAX], refused[WORDS_MAX], share[WORDS_MAX], both[2 * WORDS_MAX + 4],
            hit[WORDS_MAX], hits[2 * WORDS_MAX + 4], worst[160], wrongful[WORDS_MAX] = "-",
                                                                 wait[WORDS_MAX] = "-";

        worst_text(run, worst, sizeof worst);
        (void)snprintf(both, sizeof both, "%s (%s)", words_count(run->all.refused, refused),
                       words_share(run->all.refused, run->all.asked, share));
        (void)snprintf(hits, sizeof hits, "%s (%s)", words_count(run->clients_refused, hit),
                       words_share(run->clients_refused, clients, share));
        if (run->has_wrongful)
            (void)words_count(run->wrongful, wrongful);
        if (run->longest_wait_ns > 0)
            (void)words_span(run->longest_wait_ns, wait);
        (void)fprintf(to, "%-*s %12s %20s %18s %26s %10s %13s\n", width, run->text,
                      words_count(run->all.passed, passed), both, hits, worst, wrongful, wait);
    }
    (void)fputs("worst window: the most of one client that passed in any period, wherever it "
                "begins, as a share of the limit's count\n"
                "wrongful: refused, though a sliding log of the same rate, which is exact, would "
                "have passed it\n",
                to);
}

void replay_print(const struct replay *r, FILE *to)
{
    replay_print_log(r->intake, to);
    if (r->options.compare) {
        print_compared(r, to);
        return;
    }
    for (int i = 0; i < r->runs; i++)
        print_limit(r, &r->run[i], to);
}
