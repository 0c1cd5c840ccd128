/* Hashes of what a file says about overrides (override_marks.h). */
#include "server/live/override_marks.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "server/live/keep_records.h"

static uint64_t mark_key(const struct override_marks *m, struct weir__slice key, bool prefix)
{
    return weir__hash(key.at, key.len, (const uint64_t[2]){m->secret[0] ^ prefix, m->secret[1]});
}

uint64_t override_mark_text(const char *text)
{
    return keep_hash(text, strlen(text)) | 1;
}

static int mark_order(const void *a, const void *b)
{
    const struct override_mark *x = a, *y = b;

    return (x->key > y->key) - (x->key < y->key);
}

static int limit_marks_order(const void *a, const void *b)
{
    return strcmp(((const struct limit_marks *)a)->name, ((const struct limit_marks *)b)->name);
}

/* Makes the marks of the limits, one after the other: the options have them in that order. */
static void marks_fill(struct override_marks *m, const struct serve_options *o)
{
    struct limit_marks *of = NULL;
    char *names = m->names;

    for (size_t i = 0; i < o->overrides; i++) {
        const struct serve_override *is = &o->override[i];

        if (!of || strcmp(of->name, is->name) != 0) {
            of = &m->limit[m->n++];
            *of = (struct limit_marks){.name = names, .mark = &m->mark[i]};
            names = stpcpy(names, is->name) + 1;
        }
        m->mark[i] = (struct override_mark){mark_key(m, weir__slice_of(is->key), is->prefix),
                                            override_mark_text(is->limit)};
        of->n++;
    }
    for (size_t i = 0, at = 0; i < m->n; at += m->limit[i++].n)
        qsort(&m->mark[at], m->limit[i].n, sizeof m->mark[0], mark_order);
}

struct override_marks *override_marks_open(const struct serve_options *o, const uint64_t secret[2])
{
    struct override_marks *m = calloc(1, sizeof *m);
    size_t limits = 0, bytes = 0;

    for (size_t i = 0; i < o->overrides; i++)
        if (i == 0 || strcmp(o->override[i - 1].name, o->override[i].name) != 0) {
            limits++;
            bytes += strlen(o->override[i].name) + 1;
        }
    if (!m)
        return NULL;
    memcpy(m->secret, secret, sizeof m->secret);
    m->overrides = o->overrides;
    m->limit = calloc(limits + 1, sizeof m->limit[0]);
    m->mark = malloc((o->overrides + 1) * sizeof m->mark[0]);
    m->names = malloc(bytes + 1);
    if (m->limit && m->mark && m->names) {
        marks_fill(m, o);
        return m;
    }
    override_marks_close(m);
    return NULL;
}

void override_marks_close(struct override_marks *m)
{
    if (!m)
        return;
    free(m->limit);
    free(m->mark);
    free(m->names);
    free(m);
}

size_t override_marks_bytes(const struct override_marks *m)
{
    return m ? sizeof *m + m->n * sizeof m->limit[0] + m->overrides * sizeof m->mark[0] : 0;
}

const struct limit_marks *override_marks_of_limit(const struct override_marks *m, const char *name)
{
    const struct limit_marks one = {.name = name};

    return m ? bsearch(&one, m->limit, m->n, sizeof one, limit_marks_order) : NULL;
}

uint64_t override_marks_find(const struct override_marks *m, const struct limit_marks *of,
                             struct weir__slice key, bool prefix)
{
    struct override_mark one = {.text = 0};
    const struct override_mark *is = NULL;

    if (of) {
        one.key = mark_key(m, key, prefix);
        is = bsearch(&one, of->mark, of->n, sizeof one, mark_order);
    }
    return is ? is->text : 0;
}
