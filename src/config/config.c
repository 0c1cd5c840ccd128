/* Reading files, what they include, and whether they have changed. */
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "config/tree.h"

#define CHUNK           65536
#define TEMPORARY_CHUNK (256 * 1024) /* so large that the allocator gives it back at once */

/* ---- Memory ---------------------------------------------------------------------------------- */

struct config_chunk {
    struct config_chunk *next;
    size_t used, cap;
    _Alignas(max_align_t) char bytes[];
};

void *config_take(struct config *c, size_t bytes)
{
    struct config_chunk **chunks =
        c->inside->in_temporary ? &c->inside->temporary : &c->inside->chunks;
    struct config_chunk *k = *chunks;
    const size_t len = (bytes + 15) & ~(size_t)15;

    if (!k || k->cap - k->used < len) {
        const size_t usual = c->inside->in_temporary ? TEMPORARY_CHUNK : CHUNK;
        const size_t cap = len > usual ? len : usual;

        k = calloc(1, sizeof *k + cap);
        if (!k) {
            c->inside->exhausted = true;
            return NULL;
        }
        k->cap = cap;
        k->next = *chunks;
        *chunks = k;
    }
    k->used += len;
    return k->bytes + k->used - len;
}

char *config_copy(struct config *c, const char *bytes, size_t len)
{
    char *to = config_take(c, len + 1);

    if (to)
        memcpy(to, bytes, len);
    return to;
}

/* ---- Patterns -------------------------------------------------------------------------------- */

/* The pattern beside the file that names it. */
static void include_pattern(const struct config *c, const char *text, char path[CONFIG_PLACE * 8])
{
    const char *slash = strrchr(c->inside->path, '/');
    const int folder = text[0] == '/' || !slash ? 0 : (int)(slash + 1 - c->inside->path);

    (void)snprintf(path, CONFIG_PLACE * 8, "%.*s%s", folder, c->inside->path, text);
}

static int include_glob(const struct config *c, const char *text, glob_t *found)
{
    char path[CONFIG_PLACE * 8];

    include_pattern(c, text, path);
    return glob(path, 0, NULL, found);
}

/* ---- Whether it has changed ------------------------------------------------------------------ */

/* What a file is: its bytes are others if this is another number. */
static uint64_t stamp_of(const struct stat *st)
{
    const uint64_t secret[2] = {1, 2};
    const int64_t now[7] = {(int64_t)st->st_dev,          (int64_t)st->st_ino,
                            (int64_t)st->st_size,         (int64_t)st->st_mtim.tv_sec,
                            (int64_t)st->st_mtim.tv_nsec, (int64_t)st->st_ctim.tv_sec,
                            (int64_t)st->st_ctim.tv_nsec};

    return weir__hash(now, sizeof now, secret);
}

/* What is behind a path now, symbolic links followed: one that points elsewhere is a change. */
static uint64_t stamp_path(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? stamp_of(&st) : 0;
}

static uint64_t stamp_add(uint64_t stamp, const char *path, uint64_t file)
{
    return weir__hash(path, strlen(path), (const uint64_t[2]){stamp, file});
}

/* The number for all files, if `file` is that of the first. */
static uint64_t stamp_all(const struct config *c, uint64_t file)
{
    uint64_t stamp = stamp_add(0, c->inside->path, file);

    for (size_t i = 0; i < c->inside->includes; i++) {
        glob_t found = {0};

        if (include_glob(c, c->inside->include[i].text, &found) == 0)
            for (size_t k = 0; k < found.gl_pathc; k++)
                stamp = stamp_add(stamp, found.gl_pathv[k], stamp_path(found.gl_pathv[k]));
        globfree(&found);
    }
    return stamp;
}

uint64_t config_stamp(const struct config *c)
{
    return stamp_all(c, stamp_path(c->inside->path));
}

uint64_t config_stamp_read(const struct config *c)
{
    return c->inside->stamp;
}

/* ---- One file -------------------------------------------------------------------------------- */

/* The bytes of a file. False: a mistake. */
static bool file_load(struct config *c, struct config_file *f, int fd)
{
    struct stat st;
    ssize_t n = 1;

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        config_blame_at(c, f->path, 0, 0, "not a regular file");
        return false;
    }
    f->stamp = stamp_of(&st); /* before: what is written meanwhile is a change */
    c->inside->in_temporary = true;
    f->bytes = config_take(c, (st.st_size < CONFIG_FILE_BYTES ? (size_t)st.st_size : 0) + CHUNK);
    c->inside->in_temporary = false;
    if (st.st_size > CONFIG_FILE_BYTES || !f->bytes) {
        if (f->bytes)
            config_blame_at(c, f->path, 0, 0, "larger than %d MiB", CONFIG_FILE_BYTES >> 20);
        return false;
    }
    /* What is written behind its end meanwhile is read the next time. */
    while (f->len < (size_t)st.st_size && n > 0) {
        n = read(fd, f->bytes + f->len, (size_t)st.st_size - f->len);
        f->len += n > 0 ? (size_t)n : 0;
    }
    if (n < 0) {
        config_blame_at(c, f->path, 0, 0, "cannot be read: %s", strerror(errno));
        return false;
    }
    f->bytes[f->len] = '\0';
    return true;
}

/* libyaml would take a NUL for the end. */
static bool file_has_nul(struct config *c, const struct config_file *f)
{
    const char *nul = memchr(f->bytes, '\0', f->len);
    int line, column;

    if (!nul)
        return false;
    config_locate(f, (size_t)(nul - f->bytes), &line, &column);
    config_blame_at(c, f->path, line, column, "a NUL byte: expected UTF-8 text");
    return true;
}

static struct config_file *file_add(struct config *c, const char *path, bool included)
{
    struct config_inside *in = c->inside;
    struct config_file *f = config_take(c, sizeof *f);

    if (!f || !(f->path = config_copy(c, path, strlen(path))))
        return NULL;
    f->included = included;
    f->number = in->files_n++;
    *in->files_end = f;
    in->files_end = &f->next;
    return f;
}

static void file_parse(struct config *c, struct config_file *f)
{
    static const char MARK[] = "\xEF\xBB\xBF"; /* the byte order mark */
    const size_t before = c->mistakes;

    if (f->len >= 3 && memcmp(f->bytes, MARK, 3) == 0) {
        f->bytes += 3;
        f->len -= 3;
    }
    if (file_has_nul(c, f))
        return;
    config_tree(c, f);
    if (f->root || c->mistakes == before)
        config_sections(c, f);
}

static void chunks_free(struct config_chunk **chunks)
{
    while (*chunks) {
        struct config_chunk *k = *chunks;

        *chunks = k->next;
        free(k);
    }
}

void config_forget_overrides(struct config *c)
{
    c->overrides = NULL;
    c->entries = NULL;
    for (struct config_file *f = c->inside->files; f; f = f->next) {
        f->bytes = NULL;
        f->root = NULL;
    }
    if (!c->inside->temporary_is_used)
        chunks_free(&c->inside->temporary);
}

static struct config_file *file_read(struct config *c, const char *path, bool included)
{
    struct config_file *f = file_add(c, path, included);
    const int fd = f ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;

    if (f && fd < 0)
        config_blame_at(c, f->path, 0, 0, "cannot be opened: %s", strerror(errno));
    else if (f && file_load(c, f, fd))
        file_parse(c, f);
    if (fd >= 0)
        (void)close(fd);
    return f;
}

/* ---- Includes -------------------------------------------------------------------------------- */

static void include_read(struct config *c, const struct config_text *pattern)
{
    glob_t found = {0};
    const int error = include_glob(c, pattern->text, &found);

    if (error == GLOB_NOSPACE)
        c->inside->exhausted = true;
    else if (error == GLOB_NOMATCH && !strpbrk(pattern->text, "*?["))
        config_blame(c, pattern->at, 0, "include: there is no such file");
    for (size_t i = 0; error == 0 && i < found.gl_pathc; i++) {
        if (c->inside->files_n >= CONFIG_FILES) {
            config_blame(c, pattern->at, 0, "include: more than %d files", CONFIG_FILES);
            break;
        }
        (void)file_read(c, found.gl_pathv[i], true);
    }
    globfree(&found);
}

/* ---- Names in one space ---------------------------------------------------------------------- */

static int limits_by_name(const void *a, const void *b)
{
    const struct config_limit *x = *(struct config_limit *const *)a;
    const struct config_limit *y = *(struct config_limit *const *)b;
    const int order = strcmp(x->name.text, y->name.text);

    if (order)
        return order;
    if (x->name.at->file != y->name.at->file)
        return x->name.at->file->number - y->name.at->file->number;
    return (x->name.at->index > y->name.at->index) - (x->name.at->index < y->name.at->index);
}

/* Names that two files have. Within one file the tree has found them. */
static void limits_find_twice(struct config *c)
{
    struct config_limit **all;
    size_t n = 0, i = 0;

    for (const struct config_limit *l = c->limits; l; l = l->next)
        n++;
    all = malloc((n + 1) * sizeof all[0]);
    if (!all) {
        c->inside->exhausted = true;
        return;
    }
    for (struct config_limit *l = c->limits; l; l = l->next)
        all[i++] = l;
    qsort(all, n, sizeof all[0], limits_by_name);
    for (size_t k = 1, first = 0; k < n; k++)
        if (strcmp(all[k]->name.text, all[first]->name.text) == 0) {
            char place[CONFIG_PLACE], quoted[64];
            struct weir__out o = {quoted, sizeof quoted, 0};

            weir__out_quoted(&o, weir__slice_of(all[k]->name.text));
            (void)weir__out_end(&o);
            config_blame(c, all[k]->name.at, 0, "the limit %s is here twice: first at %s", quoted,
                         config_place(all[first]->name.at, place));
        } else {
            first = k;
        }
    free(all);
}

/* ---- All of it ------------------------------------------------------------------------------- */

static struct config *config_begin(const char *path, const struct config_key *settings)
{
    struct config *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->inside = calloc(1, sizeof *c->inside);
    c->mistake = calloc(CONFIG_MISTAKES, sizeof c->mistake[0]);
    if (!c->inside || !c->mistake) {
        free(c->inside);
        free(c->mistake);
        free(c);
        return NULL;
    }
    c->inside->settings = settings;
    c->inside->files_end = &c->inside->files;
    c->inside->values_end = &c->values;
    c->inside->listeners_end = &c->listeners;
    c->inside->stores_end = &c->stores;
    c->inside->limits_end = &c->limits;
    c->inside->overrides_end = &c->overrides;
    c->inside->entries_end = &c->entries;
    c->inside->rules_end = &c->rules;
    c->inside->include = config_take(c, CONFIG_FILES * sizeof c->inside->include[0]);
    c->inside->path = config_copy(c, path, strlen(path));
    return c;
}

/* NULL if there was no memory for all of it. */
static struct config *config_whole(struct config *c)
{
    if (c && !c->inside->exhausted)
        limits_find_twice(c);
    if (c && c->inside->exhausted) {
        config_close(c);
        return NULL;
    }
    return c;
}

struct config *config_open(const char *path, const struct config_key *settings)
{
    struct config *c = config_begin(path, settings);

    if (c && !c->inside->exhausted) {
        const struct config_file *f = file_read(c, path, false);

        c->inside->stamp = stamp_all(c, f ? f->stamp : 0); /* before the others are read */
        for (size_t i = 0; i < c->inside->includes; i++)
            include_read(c, &c->inside->include[i]);
    }
    return config_whole(c);
}

struct config *config_open_bytes(const char *path, const char *bytes, size_t len,
                                 const struct config_key *settings)
{
    struct config *c = config_begin(path, settings);
    struct config_file *f = c && !c->inside->exhausted ? file_add(c, path, false) : NULL;

    if (f && len <= CONFIG_FILE_BYTES && (f->bytes = config_copy(c, bytes, len))) {
        f->len = len;
        file_parse(c, f);
    }
    return config_whole(c);
}

void config_close(struct config *c)
{
    if (!c)
        return;
    chunks_free(&c->inside->temporary);
    chunks_free(&c->inside->chunks);
    free(c->inside);
    free(c->mistake);
    free(c);
}

size_t config_files(const struct config *c)
{
    return (size_t)c->inside->files_n;
}
