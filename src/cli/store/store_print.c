/* How `weir store` tells what it found: lines for people, one JSON object for machines. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/num.h"
#include "cli/store/store_info.h"
#include "sim/report.h"

#define DATE_MAX 32

void store_print_line(const char *what, const char *format, ...)
{
    va_list list;

    (void)printf("  %-13s", what);
    va_start(list, format);
    (void)vprintf(format, list);
    va_end(list);
    (void)putchar('\n');
}

/* In UTC, to the second. */
static const char *date_of(int64_t ns, char out[DATE_MAX])
{
    const time_t seconds = (time_t)(ns / WEIR__NS_PER_S);
    struct tm t;

    if (!gmtime_r(&seconds, &t) || strftime(out, DATE_MAX, "%Y-%m-%dT%H:%M:%SZ", &t) == 0)
        (void)snprintf(out, DATE_MAX, "%" PRId64 "ns", ns);
    return out;
}

/* ---- For people ------------------------------------------------------------------------------ */

/* A name as it may be shown: a terminal obeys what it does not print. */
static void print_name(const char *name)
{
    for (; *name; name++)
        (void)putchar(*name < ' ' || *name > '~' ? '?' : *name);
}

static void print_users(const struct store_info *info)
{
    const struct store_users *u = &info->users;

    if (u->n == 0) {
        store_print_line("in use by", "no process");
        return;
    }
    for (uint32_t i = 0; i < u->n; i++) {
        const char *what = i == 0 ? "in use by" : "";
        const char *s = u->user[i].lock_owners == 1 ? "" : "s";

        if (u->user[i].pid > 0)
            store_print_line(what, "process %ld, %" PRIu32 " seat%s", (long)u->user[i].pid,
                             u->user[i].lock_owners, s);
        else
            store_print_line(what, "a process of another namespace, %" PRIu32 " seat%s",
                             u->user[i].lock_owners, s);
    }
    store_print_line("seats", "%" PRIu32 " of %" PRIu64 " in use", u->lock_owners,
                     info->image.header.lock_owners);
}

static void print_header(const struct store_info *info)
{
    const struct weir__header *h = &info->image.header;
    const uint64_t bytes = atomic_load(&h->bytes), recovered = atomic_load(&h->recovered);
    char date[DATE_MAX];

    store_print_line("version", "%" PRIu32, h->version);
    if (info->error)
        store_print_line("sound", "no: %s", info->why.text);
    else
        store_print_line("sound", "yes");
    store_print_line("size", "%" PRIu64 " bytes (%.1f MiB)", bytes, (double)bytes / (1024 * 1024));
    store_print_line("max_keys", "%" PRIu64, h->max_keys);
    store_print_line("max_memory", "%" PRIu64, h->max_memory);
    store_print_line("max_policies", "%" PRIu64, h->max_policies);
    store_print_line("made", "%s", date_of(h->made_ns, date));
    store_print_line("now", "%s", date_of(info->now_ns, date));
    print_users(info);
    store_print_line("recovered", "%" PRIu64 " decision%s of killed processes", recovered,
                     recovered == 1 ? "" : "s");
    if (info->unfinished > 0)
        store_print_line("unfinished", "%" PRIu64 " more, to be undone by the next who opens it",
                         info->unfinished);
}

static void print_policies(const struct store_info *info)
{
    (void)printf("\n%" PRIu64 " %s\n", info->policies, info->policies == 1 ? "policy" : "policies");
    for (uint64_t i = 0; i < info->policies; i++) {
        const struct store_policy *p = &info->policy[i];
        char date[DATE_MAX];

        (void)fputs("  ", stdout);
        print_name(p->name);
        (void)printf("\n    %s\n", p->limit);
        (void)printf("    since %s, %" PRIu32 " version%s kept\n", date_of(p->since_ns, date),
                     p->versions, p->versions == 1 ? "" : "s");
    }
}

static void print_tables(const struct store_info *info)
{
    (void)printf("\n%12s%14s%14s%14s%14s\n", "state bytes", "room for", "keys", "live", "evicted");
    for (uint32_t i = 0; i < info->tables; i++) {
        const struct store_table *t = &info->table[i];

        (void)printf("%12zu%14" PRIu64 "%14" PRIu64 "%14" PRIu64 "%14" PRIu64 "\n", t->state_bytes,
                     t->keys.room, t->keys.used, t->keys.live, t->keys.evicted);
    }
}

void store_info_print(const struct store_info *info, bool colour)
{
    if (!info->readable)
        return;
    (void)printf(colour ? "\033[1m%s\033[0m\n" : "%s\n", info->path);
    print_header(info);
    print_policies(info);
    print_tables(info);
}

/* ---- For machines ---------------------------------------------------------------------------- */

static void put_string(const char *name, const char *text)
{
    (void)printf("\"%s\":", name);
    sim_json_string(stdout, weir__slice_of(text));
}

static void put_header(const struct store_info *info)
{
    const struct weir__header *h = &info->image.header;

    (void)printf(",\"version\":%" PRIu32 ",\"current_version\":%d", info->image.header.version,
                 WEIR__FILE_VERSION);
    (void)printf(",\"bytes\":%" PRIu64 ",\"max_keys\":%" PRIu64 ",\"max_memory\":%" PRIu64
                 ",\"max_policies\":%" PRIu64,
                 atomic_load(&h->bytes), h->max_keys, h->max_memory, h->max_policies);
    (void)printf(",\"made_ns\":%" PRId64 ",\"now_ns\":%" PRId64, h->made_ns, info->now_ns);
    (void)printf(",\"recovered\":%" PRIu64 ",\"unfinished\":%" PRIu64, atomic_load(&h->recovered),
                 info->unfinished);
    (void)printf(",\"seats\":%" PRIu64 ",\"seats_in_use\":%" PRIu32, h->lock_owners,
                 info->users.lock_owners);
}

static void put_users(const struct store_info *info)
{
    (void)fputs(",\"processes\":[", stdout);
    for (uint32_t i = 0; i < info->users.n; i++) {
        const struct store_user *u = &info->users.user[i];

        (void)fputs(i > 0 ? "," : "", stdout);
        if (u->pid > 0)
            (void)printf("{\"pid\":%ld,\"seats\":%" PRIu32 "}", (long)u->pid, u->lock_owners);
        else
            (void)printf("{\"pid\":null,\"seats\":%" PRIu32 "}", u->lock_owners);
    }
    (void)fputs("]", stdout);
}

static void store_put_policies(const struct store_info *info)
{
    (void)fputs(",\"policies\":[", stdout);
    for (uint64_t i = 0; i < info->policies; i++) {
        const struct store_policy *p = &info->policy[i];

        (void)fputs(i > 0 ? ",{" : "{", stdout);
        put_string("name", p->name);
        (void)putchar(',');
        put_string("limit", p->limit);
        (void)printf(",\"since_ns\":%" PRId64 ",\"versions\":%" PRIu32 "}", p->since_ns,
                     p->versions);
    }
    (void)fputs("]", stdout);
}

static void put_tables(const struct store_info *info)
{
    (void)fputs(",\"tables\":[", stdout);
    for (uint32_t i = 0; i < info->tables; i++) {
        const struct store_table *t = &info->table[i];

        (void)printf("%s{\"state_bytes\":%zu,\"bytes\":%" PRIu64 ",\"max_keys\":%" PRIu64
                     ",\"keys\":%" PRIu64 ",\"live_keys\":%" PRIu64 ",\"evicted\":%" PRIu64 "}",
                     i > 0 ? "," : "", t->state_bytes, t->bytes, t->keys.room, t->keys.used,
                     t->keys.live, t->keys.evicted);
    }
    (void)fputs("]", stdout);
}

void store_info_print_json(const struct store_info *info)
{
    (void)putchar('{');
    put_string("file", info->path);
    (void)printf(",\"sound\":%s", info->error ? "false" : "true");
    if (info->error) {
        (void)putchar(',');
        put_string("error", weir_error_name(info->error));
        (void)putchar(',');
        put_string("message", info->why.text);
    }
    if (info->readable) {
        put_header(info);
        put_users(info);
        store_put_policies(info);
        put_tables(info);
    }
    (void)puts("}");
}
