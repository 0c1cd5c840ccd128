/* The journal of live changes (keep.h). */
#include "server/live/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ip.h"
#include "server/internal.h"
#include "server/limits/limit_names.h"
#include "server/live/keep_records.h"
#include "server/live/override_marks.h"

#define HEADER     "weir-live 1\n"
#define FILE_BYTES ((size_t)64 << 20) /* at most twice the records, the spare, and one change */
/* What the file may have beyond twice the records. */
#define SPARE       1000 /* lines */
#define SPARE_BYTES ((size_t)1 << 20)

struct keep {
    const char *path;
    pthread_mutex_t lock; /* of all that follows */
    int fd;
    size_t len, lines; /* of the file */
    struct records kept, pending;
    bool broken; /* there was no memory for a pending line */
};

/* ---- What the configuration says ------------------------------------------------------------- */

static uint64_t base_of_limit(const struct serve_options *o, struct weir__slice name)
{
    struct weir_limit limit;
    char text[WEIR_LIMIT_TEXT_MAX];

    for (size_t i = 0; i < o->limits; i++) {
        const struct serve_limit *l = &o->limit[i];
        const char *store = l->store ? l->store : "";

        if (!weir__slice_is(name, l->name))
            continue;
        (void)snprintf(text, sizeof text, "%s", l->limit);
        if (weir_limit_parse(&limit, l->limit, NULL) == 0)
            (void)weir_limit_print(&limit, text, sizeof text);
        return (keep_hash(text, strlen(text)) ^ (keep_hash(store, strlen(store)) << 1)) | 1;
    }
    return 0;
}

/* A number for what it says, 0 for nothing. Names and keys without NUL are in a file. */
static uint64_t base_of(const struct server *s, const struct change_line *l)
{
    const struct serve_options *o = s->file;
    char name[WEIR_NAME_MAX], *key;
    uint64_t base = 0;

    if (l->kind == KEEP_LIMIT)
        return base_of_limit(o, l->name);
    if (l->name.len >= sizeof name || memchr(l->key.at, '\0', l->key.len))
        return 0;
    key = strndup(l->key.at, l->key.len);
    memcpy(name, l->name.at, l->name.len);
    name[l->name.len] = '\0';
    if (key && (l->kind == KEEP_ALLOW || l->kind == KEEP_DENY)) {
        const struct serve_entry one = {name, key, l->kind == KEEP_ALLOW};

        base = o->entries > 0 &&
               bsearch(&one, o->entry, o->entries, sizeof one, serve_entry_order) != NULL;
    } else if (key) {
        base = override_marks_find(s->marks, override_marks_of_limit(s->marks, name),
                                   weir__slice_of(key), l->kind == KEEP_PREFIX);
    }
    free(key);
    return base;
}

/* Whether the configuration says what the change makes so: nothing. Of a network it may say it in
 * other words (10.1.0.0/8 is 10.0.0.0/8). */
static bool change_is_idle(const struct serve_options *o, const struct change_line *l)
{
    struct weir__ip ip;

    if (l->value.at || l->base != 0)
        return false;
    return (l->kind != KEEP_ALLOW && l->kind != KEEP_DENY) || o->entries == 0 ||
           !weir__ip_read(l->key.at, l->key.len, &ip);
}

static struct record record_of(const struct server *s, const struct change_line *l, char *line)
{
    struct record one = keep_record_of(l, line);

    one.idle = change_is_idle(s->file, l);
    return one;
}

/* ---- The file -------------------------------------------------------------------------------- */

static bool bytes_write(int fd, const char *bytes, size_t len, size_t at)
{
    while (len > 0) {
        const ssize_t n = pwrite(fd, bytes, len, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        at += (size_t)n;
        len -= (size_t)n;
    }
    return true;
}

/* Appends the lines of all records; false: an errno, and the file is as it was. */
static bool lines_append(int fd, size_t *len, const struct records *r)
{
    size_t at = *len;

    for (size_t i = 0; i < r->n; i++) {
        const size_t n = strlen(r->at[i].line);

        if (!bytes_write(fd, r->at[i].line, n, at)) {
            const int cause = errno;

            (void)!ftruncate(fd, (off_t)*len);
            errno = cause;
            return false;
        }
        at += n;
    }
    *len = at;
    return true;
}

/* The file again with the records alone; false: an errno, and the file is as it was. */
static bool keep_rewrite(struct keep *k)
{
    const size_t room = strlen(k->path) + 8;
    char *path = malloc(room);
    size_t len = sizeof HEADER - 1;
    int fd = -1, cause;

    if (path) {
        (void)snprintf(path, room, "%s.new", k->path);
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    }
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && bytes_write(fd, HEADER, len, 0) &&
        lines_append(fd, &len, &k->kept) && fsync(fd) == 0 && rename(path, k->path) == 0) {
        (void)close(k->fd);
        k->fd = fd;
        k->len = len;
        k->lines = k->kept.n;
        free(path);
        return true;
    }
    cause = errno;
    if (fd >= 0) {
        (void)unlink(path);
        (void)close(fd);
    }
    free(path);
    errno = cause;
    return false;
}

static void keep_tidy(struct server *s)
{
    struct keep *k = s->keep;

    if ((k->lines > 2 * k->kept.n + SPARE || k->len > 2 * records_bytes(&k->kept) + SPARE_BYTES) &&
        !keep_rewrite(k)) {
        log_at(s->log, LOG_LEVEL_WARNING, "keep: %s cannot be rewritten: %s", k->path,
               strerror(errno));
        k->lines = 0; /* it is tried again, but not with each change */
    }
}

/* ---- Changing -------------------------------------------------------------------------------- */

void keep_begin(struct server *s)
{
    if (!s->keep)
        return;
    (void)pthread_mutex_lock(&s->keep->lock);
    s->keep->broken = false;
}

void keep_put(struct server *s, enum keep_kind kind, struct weir__slice name,
              struct weir__slice key, struct weir__slice value)
{
    struct change_line l = {.kind = kind, .name = name, .key = key, .value = value};
    struct keep *k = s->keep;
    struct record one;

    if (!k)
        return;
    l.base = base_of(s, &l);
    one = record_of(s, &l, keep_line_make(&l));
    if (one.line && records_make_room(&k->pending, 1)) {
        k->pending.at[k->pending.n++] = one;
    } else {
        free(one.line);
        k->broken = true;
    }
}

static int keep_fail(struct keep *k, int error, struct weir_diag *why, const char *cause)
{
    why->column = 0;
    (void)snprintf(why->text, sizeof why->text, "keep: %.200s: %s; nothing is changed", k->path,
                   cause);
    records_clear(&k->pending);
    (void)pthread_mutex_unlock(&k->lock);
    return error;
}

/* Whether a single change takes the place of an earlier one. */
static bool keep_replaces(const struct keep *k)
{
    for (size_t i = 0; k->pending.n == 1 && i < k->kept.n; i++)
        if (k->kept.at[i].id == k->pending.at[0].id)
            return true;
    return false;
}

static bool keep_has_room(const struct keep *k)
{
    const size_t more = records_bytes(&k->pending);
    const bool replaces = keep_replaces(k), frees = replaces && k->pending.at[0].idle;

    return k->len + more <= FILE_BYTES &&
           k->kept.n + k->pending.n - (replaces ? 1 : 0) <= KEEP_MOST &&
           (frees || records_bytes(&k->kept) + more <= KEEP_BYTES);
}

int keep_write(struct server *s, struct weir_diag *why)
{
    struct keep *k = s->keep;
    size_t len;

    if (!k)
        return 0;
    if (k->broken || !records_make_room(&k->kept, k->pending.n))
        return keep_fail(k, WEIR_ENOMEM, why, "out of memory");
    if (!keep_has_room(k))
        return keep_fail(k, WEIR_EFULL, why,
                         "limit reached: 100000 live changes are kept, of 20 MiB in all");
    len = k->len;
    if (!lines_append(k->fd, &len, &k->pending))
        return keep_fail(k, WEIR_EIO, why, strerror(errno));
    return 0;
}

void keep_end(struct server *s, bool made)
{
    struct keep *k = s->keep;

    if (!k)
        return;
    if (!made) {
        (void)!ftruncate(k->fd, (off_t)k->len);
        records_clear(&k->pending);
    }
    for (size_t i = 0; i < k->pending.n; i++) {
        k->len += strlen(k->pending.at[i].line);
        k->lines++;
        if (k->pending.n == 1)
            records_add(&k->kept, k->pending.at[i]);
        else
            k->kept.at[k->kept.n++] = k->pending.at[i];
    }
    if (k->pending.n > 1)
        (void)records_settle(&k->kept); /* without memory for it there are some too many */
    k->pending.n = 0;
    keep_tidy(s);
    (void)pthread_mutex_unlock(&k->lock);
}

/* ---- What still holds ------------------------------------------------------------------------ */

/* True if the configuration says what it said when the change was made. */
static bool record_holds(struct server *s, const struct record *r)
{
    const size_t len = strlen(r->line) - 1;
    char *text = malloc(len + 1);
    struct change_line l;
    bool holds = text && keep_line_read((struct weir__slice){r->line, len}, text, &l) &&
                 base_of(s, &l) == r->base;

    free(text);
    return holds;
}

static size_t records_drop_stale(struct server *s)
{
    struct records *r = &s->keep->kept;
    size_t n = 0, was = r->n;

    for (size_t i = 0; i < r->n; i++)
        if (record_holds(s, &r->at[i]))
            r->at[n++] = r->at[i];
        else
            free(r->at[i].line);
    r->n = n;
    return was - n;
}

void keep_reloaded(struct server *s)
{
    size_t dropped;

    if (!s->keep)
        return;
    names_enter(s->names);
    (void)pthread_mutex_lock(&s->keep->lock);
    dropped = records_drop_stale(s);
    if (dropped > 0 && !keep_rewrite(s->keep))
        log_at(s->log, LOG_LEVEL_ERROR, "keep: %s cannot be rewritten: %s", s->keep->path,
               strerror(errno));
    (void)pthread_mutex_unlock(&s->keep->lock);
    names_leave(s->names);
}

/* ---- Starting -------------------------------------------------------------------------------- */

/* Makes a change again, as when a client made it. 0, or an error and *why. */
static int change_limit(struct server *s, const struct change_line *l, struct weir_diag *why)
{
    char text[WEIR_LIMIT_TEXT_MAX], url[STORE_URL_MOST];
    struct store *store = NULL;

    if (!l->value.at)
        return names_delete(s->names, l->name) ? 0 : WEIR_EBUSY;
    if (l->value.len >= sizeof text)
        return WEIR_ESYNTAX;
    memcpy(text, l->value.at, l->value.len);
    text[l->value.len] = '\0';
    if (store_word(text, url, why) != 0)
        return WEIR_ESYNTAX;
    if (url[0]) {
        store = stores_find(&s->stores, weir__slice_of(url));
        if (!store)
            return WEIR_ESTORE;
    }
    return names_set(s->names, l->name, text, store, why);
}

/* Within names_enter. */
static int change_key(const struct limit_entry *h, const struct change_line *l,
                      struct weir_diag *why)
{
    const struct weir_bytes entry = {l->key.at, l->key.len};
    const enum weir_list which = l->kind == KEEP_ALLOW ? WEIR_LIST_ALLOW : WEIR_LIST_DENY;
    char text[WEIR_LIMIT_TEXT_MAX];
    const struct weir_override one = {l->key.at, l->key.len, l->kind == KEEP_PREFIX,
                                      l->value.at ? text : NULL};

    if (l->kind == KEEP_ALLOW || l->kind == KEEP_DENY)
        return (l->value.at ? weir_list_add : weir_list_remove)(h->store->engine, h->limit.policy,
                                                                which, &entry, 1, NULL);
    if (l->value.len >= sizeof text)
        return WEIR_ESYNTAX;
    if (l->value.at)
        memcpy(text, l->value.at, l->value.len);
    text[l->value.len] = '\0';
    return weir_overrides_set(h->store->engine, h->limit.policy, &one, 1, 0, NULL, why);
}

static void record_make(struct server *s, const struct record *r, bool limits, char *text)
{
    struct weir_diag why = {.text = ""};
    struct change_line l;
    struct limit_entry *h;
    int error = 0;

    if (!keep_line_read((struct weir__slice){r->line, strlen(r->line) - 1}, text, &l) ||
        (l.kind == KEEP_LIMIT) != limits)
        return;
    if (limits) {
        error = change_limit(s, &l, &why);
    } else {
        names_enter(s->names);
        h = names_find(s->names, l.name);
        error = h ? change_key(h, &l, &why) : WEIR_EGONE;
        if (h)
            names_count_keys(s->names, h);
        names_leave(s->names);
    }
    if (error)
        log_at(s->log, LOG_LEVEL_ERROR, "keep: a change of the limit '%.*s' is lost: %s",
               (int)l.name.len, l.name.at, why.text[0] ? why.text : weir_error_text(error));
}

static int keep_mistake(const struct keep *k, const char *what)
{
    fprintf(stderr, "weir: --keep %s: %s\n", k->path, what);
    return 1;
}

/* The records of the file's bytes. An exit status. */
static int keep_parse(struct server *s, char *bytes, size_t len)
{
    const size_t head = sizeof HEADER - 1;
    struct keep *k = s->keep;
    char what[64], *text = malloc(len + 1);
    size_t at = head;
    int status = text ? 0 : keep_mistake(k, "out of memory");

    if (!status && (len < head || memcmp(bytes, HEADER, head) != 0))
        status = keep_mistake(k, "not a file of live changes, or of another version");
    while (!status && at < len) {
        char *end = memchr(bytes + at, '\n', len - at);
        const size_t n = end ? (size_t)(end - bytes) - at : 0;
        struct change_line l;
        struct record one;

        if (!end)
            break; /* it was being written when the machine stopped */
        k->lines++;
        (void)snprintf(what, sizeof what, "line %zu is not a live change", k->lines + 1);
        if (!keep_line_read((struct weir__slice){bytes + at, n}, text, &l)) {
            status = keep_mistake(k, what);
            break;
        }
        one = record_of(s, &l, strndup(bytes + at, n + 1));
        if (!one.line || !records_make_room(&k->kept, 1)) {
            free(one.line);
            status = keep_mistake(k, "out of memory");
            break;
        }
        k->kept.at[k->kept.n++] = one;
        at += n + 1;
    }
    k->len = at;
    free(text);
    if (!status && !records_settle(&k->kept))
        status = keep_mistake(k, "out of memory");
    return status;
}

/* A new file gets its first line. An exit status. */
static int keep_read(struct server *s)
{
    struct keep *k = s->keep;
    struct stat st;
    char *bytes;
    ssize_t n;
    int status;

    if (fstat(k->fd, &st) != 0 || !S_ISREG(st.st_mode))
        return keep_mistake(k, "not a regular file");
    if (flock(k->fd, LOCK_EX | LOCK_NB) != 0)
        return keep_mistake(k, "another daemon has it open");
    if (st.st_size > (off_t)FILE_BYTES)
        return keep_mistake(k, "larger than 64 MiB");
    if (st.st_size == 0) {
        k->len = sizeof HEADER - 1;
        return bytes_write(k->fd, HEADER, k->len, 0) ? 0 : keep_mistake(k, strerror(errno));
    }
    bytes = malloc((size_t)st.st_size + 1);
    n = bytes ? pread(k->fd, bytes, (size_t)st.st_size, 0) : -1;
    status = n == st.st_size ? keep_parse(s, bytes, (size_t)n) : keep_mistake(k, strerror(errno));
    free(bytes);
    return status;
}

static void keep_make(struct server *s)
{
    struct keep *k = s->keep;
    const size_t dropped = records_drop_stale(s);
    size_t longest = 0;
    char *text;

    for (size_t i = 0; i < k->kept.n; i++)
        longest = strlen(k->kept.at[i].line) > longest ? strlen(k->kept.at[i].line) : longest;
    text = malloc(longest + 1);
    for (int limits = 1; text && limits >= 0; limits--)
        for (size_t i = 0; i < k->kept.n; i++)
            record_make(s, &k->kept.at[i], limits, text);
    free(text);
    log_print(s->log, "keep: %zu live changes of %s hold", k->kept.n, k->path);
    if (dropped > 0)
        k->lines = SIZE_MAX / 4; /* it is rewritten: what no longer holds must not come back */
    else
        (void)!ftruncate(k->fd, (off_t)k->len); /* a line without an end */
    keep_tidy(s);
}

int keep_open(struct server *s)
{
    struct keep *k;
    int status;

    if (!s->options.keep)
        return 0;
    k = calloc(1, sizeof *k);
    if (!k)
        return 1;
    (void)pthread_mutex_init(&k->lock, NULL);
    k->path = s->options.keep;
    s->keep = k;
    k->fd = open(k->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (k->fd < 0)
        return keep_mistake(k, strerror(errno));
    status = keep_read(s);
    if (!status)
        keep_make(s);
    return status;
}

void keep_close(struct server *s)
{
    struct keep *k = s->keep;

    if (!k)
        return;
    if (k->fd >= 0) {
        (void)fsync(k->fd);
        (void)close(k->fd);
    }
    records_clear(&k->kept);
    records_clear(&k->pending);
    free(k->kept.at);
    free(k->pending.at);
    (void)pthread_mutex_destroy(&k->lock);
    free(k);
    s->keep = NULL;
}
