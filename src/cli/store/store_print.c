/* Prints what `weir store info` finds: lines for people, one JSON object for programs. */
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

/* The date in UTC, to the second. */
static const char *date_of(int64_t ns, char out[DATE_MAX])
{
    const time_t seconds = (time_t)(ns / WEIR__NS_PER_S);
    struct tm t;

    if (!gmtime_r(&seconds, &t) || strftime(out, DATE_MAX, "%Y-%m-%dT%H:%M:%SZ", &t) == 0)
        (void)snprintf(out, DATE_MAX, "%" PRId64 "ns", ns);
    return out;
}

/* ---- For people ------------------------------------------------------------------------------ */

/* Prints a name without control characters, which a terminal would obey. */
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
            store_print_line(what, "process %ld, %" PRIu32 " lock owner%s", (long)u->user[i].pid,
                             u->user[i].lock_owners, s);
        else
            store_print_line(what, "a process in another namespace, %" PRIu32 " lock owner%s",
                             u->user[i].lock_owners, s);
    }
    store_print_line("lock owners", "%" PRIu32 " of %" PRIu64 " in use", u->lock_owners,
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
        store_print_line("unfinished",
                         "%" PRIu64 " more, which the next process to open the file undoes",
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

/* ---- For programs ---------------------------------------------------------------------------- */

static void put_text(struct weir__json *j, const char *name, const char *text)
{
    weir__json_key(j, name);
    weir__json_text(j, text);
}

static void store_put_count(struct weir__json *j, const char *name, uint64_t n)
{
    weir__json_key(j, name);
    weir__json_uint(j, n);
}

static void put_time(struct weir__json *j, const char *name, int64_t ns)
{
    weir__json_key(j, name);
    weir__json_int(j, ns);
}

static void put_header(struct weir__json *j, const struct store_info *info)
{
    const struct weir__header *h = &info->image.header;

    store_put_count(j, "version", h->version);
    store_put_count(j, "current_version", weir__file_version);
    store_put_count(j, "bytes", atomic_load(&h->bytes));
    store_put_count(j, "max_keys", h->max_keys);
    store_put_count(j, "max_memory", h->max_memory);
    store_put_count(j, "max_policies", h->max_policies);
    put_time(j, "made_ns", h->made_ns);
    put_time(j, "now_ns", info->now_ns);
    store_put_count(j, "recovered", atomic_load(&h->recovered));
    store_put_count(j, "unfinished", info->unfinished);
    store_put_count(j, "lock_owners", h->lock_owners);
    store_put_count(j, "lock_owners_in_use", info->users.lock_owners);
}

static void put_users(struct weir__json *j, const struct store_info *info)
{
    weir__json_key(j, "processes");
    weir__json_open(j, '[');
    for (uint32_t i = 0; i < info->users.n; i++) {
        const struct store_user *u = &info->users.user[i];

        weir__json_open(j, '{');
        weir__json_key(j, "pid");
        (u->pid > 0 ? weir__json_int(j, u->pid) : weir__json_null(j));
        store_put_count(j, "lock_owners", u->lock_owners);
        weir__json_close(j, '}');
    }
    weir__json_close(j, ']');
}

static void store_put_policies(struct weir__json *j, const struct store_info *info)
{
    weir__json_key(j, "policies");
    weir__json_open(j, '[');
    for (uint64_t i = 0; i < info->policies; i++) {
        const struct store_policy *p = &info->policy[i];

        weir__json_open(j, '{');
        put_text(j, "name", p->name);
        put_text(j, "limit", p->limit);
        put_time(j, "since_ns", p->since_ns);
        store_put_count(j, "versions", p->versions);
        weir__json_close(j, '}');
    }
    weir__json_close(j, ']');
}

static void put_tables(struct weir__json *j, const struct store_info *info)
{
    weir__json_key(j, "tables");
    weir__json_open(j, '[');
    for (uint32_t i = 0; i < info->tables; i++) {
        const struct store_table *t = &info->table[i];

        weir__json_open(j, '{');
        store_put_count(j, "state_bytes", t->state_bytes);
        store_put_count(j, "bytes", t->bytes);
        store_put_count(j, "max_keys", t->keys.room);
        store_put_count(j, "keys", t->keys.used);
        store_put_count(j, "live_keys", t->keys.live);
        store_put_count(j, "evicted", t->keys.evicted);
        weir__json_close(j, '}');
    }
    weir__json_close(j, ']');
}

void store_info_print_json(const struct store_info *info)
{
    struct weir__json j = sim_json_to(stdout);

    weir__json_open(&j, '{');
    put_text(&j, "file", info->path);
    weir__json_key(&j, "sound");
    weir__json_bool(&j, !info->error);
    if (info->error) {
        put_text(&j, "error", weir_error_name(info->error));
        put_text(&j, "message", info->why.text);
    }
    if (info->readable) {
        put_header(&j, info);
        put_users(&j, info);
        store_put_policies(&j, info);
        put_tables(&j, info);
    }
    weir__json_close(&j, '}');
    (void)putchar('\n');
}
