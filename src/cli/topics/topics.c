/* The topics of `weir help`, each a screen of text. The reference pages in docs/ say all of it;
 * these are for one who sits at a terminal. */
#include "cli/topics/topics.h"

#include <string.h>

#include "cli/options.h"

enum { TOPIC_COLUMNS = 92, TOPIC_NAME_WIDTH = 11 };

const struct topic TOPICS[] = {
    {"limits", "how limits are written; every algorithm in a line",
     TEXTS("A limit is a text: an algorithm, a count for a period, and options. Several with a "
           "plus between them must all grant, and take all or nothing. Without an algorithm it is "
           "a token bucket.",
           "  token-bucket 10/s burst=20                  refills 10 a second, holds 20\n"
           "  leaky-bucket 10/s capacity=20               fills, and leaks at the rate\n"
           "  fixed-window 100/m                          counts, and starts again each minute\n"
           "  fixed-window 10k/month tz=Europe/Berlin     a calendar month\n"
           "  sliding-window 100/m slots=10               a ring of counters\n"
           "  sliding-counter 100/m                       two windows, weighted\n"
           "  sliding-log 5/m                             exact: 5 in any minute\n"
           "  pacer 10/s queue=100                        turns every 100 ms; callers wait\n"
           "  smooth-bursty 10/s max-burst=2s             the next caller pays\n"
           "  smooth-warmup 100/s warmup=10s              slow after a rest\n"
           "  min-interval 5s                             at least 5 s between two\n"
           "  unlimited                                   grants all; 0/s refuses all",
           "Options that every rate may have:",
           "  block=1m..1h after=10       shuts out a key that is refused again and again\n"
           "  warn=80%                    says when a key comes near its limit\n"
           "  shadow                      decides, counts, and lets all pass\n"
           "  fallback=local|allow|deny   when a shared store does not answer",
           "docs/reference/limits.md defines all of it; docs/guide/choosing.md helps to choose."),
     TEXTS("weir explain 'sliding-log 5/m block=1m..1h after=10'",
           "weir explain '10/s + fixed-window 1k/day'")},
    {"guards", "limits on calls in progress: concurrency, breakers, adaptive limits",
     TEXTS(
         "A guard looks at the calls that are running and at how they end. A caller enters before "
         "the call, and exits after it with ok, error, drop or ignore. Guards and rates may be "
         "joined.",
         "  concurrency 10 queue=20           10 at once, 20 may wait\n"
         "  breaker errors=50%                stops calls while half of them fail\n"
         "  bbr                               sheds what would only queue, under load\n"
         "  vegas                             a limit that follows the queue\n"
         "  gradient                          a limit that follows latency\n"
         "  aimd                              a limit that grows until calls drop\n"
         "  system load=8                     stops calls while the machine is busy\n"
         "  adaptive-rate 50/s min=10 max=1k  a rate that backs off when calls drop\n"
         "  concurrency 10 + breaker + 100/s  all must grant",
         "weir enter asks a server to let a call in, and weir exit ends it; weir run does both "
         "around a command. docs/guide/guards.md has more."),
     TEXTS("weir explain 'breaker errors=50%'",
           "weir sim bbr --traffic 'ramp 0..800/s 20s; service 20ms workers=8' --rows",
           "weir enter 'concurrency 10' shop")},
    {"units", "counts, durations, sizes, rates",
     TEXTS("  10, 1k, 1.5k, 2M            a count: k is a thousand, M a million\n"
           "  500ms, 1.5s, 1m30s, 24h     a duration: ns us ms s m h d\n"
           "  65536, 64KiB, 1MiB, 1GiB    a size in bytes\n"
           "  10/s, 100/m, 1k/5m          a count for a period\n"
           "  1k/day, 10k/month           calendar days, weeks and months in a fixed window\n"
           "  80%, 0.1%                   a share\n"
           "  forever                     a wait without an end",
           "What people type elsewhere is read too: 10/minute, 10 per 5 minutes, 10r/s."),
     TEXTS("weir explain '10 per 5 minutes'")},
    {"stores", "where the state of keys lives, and who shares it",
     TEXTS(
         "  memory:               in this process\n"
         "  file:/path            all processes of a machine that open the file\n"
         "  redis://host:6379     all machines that use the same Redis\n"
         "  redis+unix:/path      the same, over a Unix socket",
         "A store has room for a number of keys (--max-keys). What a new key gets when it is full "
         "of live ones is full= of the limit; what happens while a Redis is away is its fallback=. "
         "docs/guide/store.md and docs/guide/fleet.md have more."),
     TEXTS("weir serve --store file:/var/lib/weir/state --limit api=100/s",
           "weir take --store file:/run/shop/limits '1/10m' nightly-report",
           "weir store info /var/lib/weir/state")},
    {"server", "asking a daemon: by weir, redis-cli, curl, or your language",
     TEXTS(
         "weir serve listens on 127.0.0.1:7311 for Redis clients and HTTP. --server or WEIR_SERVER "
         "names another one to the commands that ask. weir take prints a sentence, or with --json "
         "an "
         "object; a Redis client gets six integers: allowed, limit, remaining, retry after, reset "
         "after, wait, in milliseconds.",
         "  weir take api alice\n"
         "  redis-cli -p 7311 WEIR.TAKE api alice\n"
         "  curl -d limit=api -d key=alice http://127.0.0.1:7311/v1/take",
         "docs/guide/clients/ has a page and middleware for each language, docs/guide/proxies.md "
         "nginx, Caddy, HAProxy, Envoy and Traefik."),
     TEXTS("weir serve --limit api='token-bucket 100/s burst=20'", "weir take api alice",
           "weir stats")},
    {"environment", "variables that weir reads",
     TEXTS(
         "  WEIR_SERVER   the server to ask, if there is no --server\n"
         "  WEIR_TOKEN    the token that it expects, if there is no --token-file\n"
         "  WEIR_STORE    the store of serve, take and run, if there is no --store; take and run\n"
         "                then ask no server\n"
         "  NO_COLOR      if it is set and not empty, output has no colours\n"
         "  TERM          dumb: no colours\n"
         "  TMPDIR        where weir demo and weir advise put what they need on disk (/tmp)",
         "Colours and progress are for terminals only: a pipe gets plain text."),
     TEXTS("WEIR_SERVER=10.0.0.5:7311 weir ping", "NO_COLOR=1 weir demo")},
    {"exit-status", "what exit statuses mean",
     TEXTS("  0     done; allowed\n"
           "  1     failed; denied (take, peek, enter, reserve, run); not there (limit get, del)\n"
           "  2     the command line, the limit or the file is wrong; a server replies with an "
           "error\n"
           "  3     no answer from the server or the store\n"
           "  130   SIGINT ended the wait; 143: SIGTERM did",
           "A denial is no failure: 1 means that the answer is no, 3 that there is none.",
           "weir run has the status of its command; 128 + N if signal N ended it, 126 if it cannot "
           "be run, 127 if there is none. Where its command has such statuses too, "
           "--denied-status and --no-answer-status choose others. docs/reference/client.md has "
           "more."),
     TEXTS("weir take api alice && echo served", "weir ping || weir serve --limit api=100/s")},
    {"files", "files that weir reads and writes",
     TEXTS(
         "  /etc/weir/weir.yaml   the configuration of weir serve, if it is there; --config FILE\n"
         "  file:/path            a store: keys in a file that processes share\n"
         "  --tokens FILE         tokens of clients; other users may not read it\n"
         "  --keep FILE           live changes, which the next start makes again\n"
         "  --tls-cert, --tls-key the certificate of weir serve and its key\n"
         "  --token-file FILE     the token of a command that asks a server: its first line",
         "weir check says what a configuration means and what is wrong with it. weir serve looks "
         "at its file once a second and reads it again when it has changed: saving it is enough. "
         "SIGHUP and weir reload have it read at once."),
     TEXTS("weir check /etc/weir/weir.yaml", "weir store info /run/shop/limits")},
    {0},
};

const struct topic *topic_find(const char *name)
{
    for (const struct topic *t = TOPICS; t->name; t++)
        if (strcmp(name, t->name) == 0)
            return t;
    return NULL;
}

const char *topic_name(const void *topics, size_t i)
{
    return ((const struct topic *)topics)[i].name;
}

void topic_print(const struct topic *t, FILE *to)
{
    (void)fprintf(to, "%s: %s\n", t->name, t->summary);
    help_paragraphs(to, t->about);
    help_examples(to, t->examples);
}

void topics_list(FILE *to)
{
    (void)fputs("Topics; weir help TOPIC prints one, as in weir help limits:\n\n", to);
    for (const struct topic *t = TOPICS; t->name; t++)
        help_entry(to, t->name, t->summary, TOPIC_NAME_WIDTH, TOPIC_COLUMNS);
}
