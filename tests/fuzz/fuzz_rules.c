/* Fuzzes rules: their texts, key templates, paths, and the index against the plain conditions.
 *
 * A line is one word of a set of rules or of a request; its first byte says which:
 *
 *     R, F        a rule; a final one
 *     C, P, G     field=value: a condition, exact, by a prefix, by a glob
 *     V           another value of it
 *     K           a template: a limit with that key
 *     S           missing: skip
 *     Q           name=value: a field of the request
 *
 * After a mistake, which has a sentence and a place, there are no rules, as for a file with one.
 * The index must find exactly the rules whose conditions all hold, up to the first that is final. A
 * path has no dot segments and no double slashes. Two requests with other attributes never have the
 * same key.
 */
#include <stdlib.h>
#include <string.h>

#include "rules/rules.h"

#define RULES_TRIED 12 /* fewer than a request may match */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct weir__slice line_next(struct weir__slice *rest)
{
    const struct weir__slice line = weir__slice_cut(rest, '\n');

    if (rest->len > 0) {
        rest->at++;
        rest->len--;
    }
    return line;
}

/* The name before a '='; *text is what is behind it. */
static struct weir__slice name_cut(struct weir__slice *text)
{
    const struct weir__slice name = weir__slice_cut(text, '=');

    if (text->len > 0)
        *text = (struct weir__slice){text->at + 1, text->len - 1};
    return name;
}

static bool condition_line(struct rules *r, enum rules_test test, struct weir__slice text,
                           struct rules_why *why)
{
    const struct weir__slice field = name_cut(&text);

    return rules_condition(r, field, test, why) && rules_value(r, text, why);
}

/* False: a mistake. `*within`: a condition may get another value. */
static bool rule_line(struct rules *r, char what, struct weir__slice text, bool *within)
{
    struct rules_why why = {0};
    bool good = true;

    if ((what == 'R' || what == 'F') && rules_count(r) < RULES_TRIED)
        good = rules_add(r, text, what == 'F', &why);
    else if (what == 'V' && *within)
        return rules_value(r, text, &why) || why.text[0] != '\0';
    else if (rules_count(r) == 0)
        return true;
    else if (what == 'C' || what == 'P' || what == 'G')
        good = condition_line(r,
                              what == 'C'   ? RULES_EXACT
                              : what == 'P' ? RULES_PREFIX
                                            : RULES_GLOB,
                              text, &why);
    else if (what == 'K')
        good = rules_apply(r, weir__slice_of("l"), text, 1, 0, &why);
    else if (what == 'S')
        good = rules_skip_missing(r, &why);
    *within = good && (what == 'C' || what == 'P' || what == 'G');
    if (!good && (why.text[0] == '\0' || why.column < 0 || (size_t)why.column > text.len + 1))
        abort();
    return good;
}

static void request_line(struct rules_request *q, struct weir__slice text)
{
    const struct weir__slice name = name_cut(&text);

    (void)rules_request_set(q, name, text);
}

/* The index against every rule's own conditions. */
static void check_matches(struct rules_request *q, const struct rules *r)
{
    struct rules_matches m;
    size_t n = 0;

    rules_match(q, &m);
    for (uint32_t i = 0; i < rules_count(r); i++) {
        char why[RULES_WHY_ROOM];

        if (rules_why_not(q, i, why))
            continue;
        if (n >= m.n || m.rule[n++] != i)
            abort();
        for (size_t k = 0; k < rules_applies(r, i); k++) {
            struct weir__slice key;

            (void)rules_key(q, i, k, &key);
        }
        if (rules_is_final(r, i))
            break;
    }
    if (n != m.n)
        abort();
}

static void check_path(struct weir__slice text)
{
    char *copy = malloc(text.len + 1);
    struct weir__slice path;

    if (!copy)
        abort();
    memcpy(copy, text.at, text.len);
    path = rules_path_normal(copy, text.len);
    while (path.len > 0 && path.at[0] == '/') { /* else it is none, and no rule has it */
        struct weir__slice segment;

        path.at++;
        path.len--;
        segment = weir__slice_cut(&path, '/');
        if ((segment.len == 0 && path.len > 0) || weir__slice_is(segment, ".") ||
            weir__slice_is(segment, ".."))
            abort();
    }
    free(copy);
}

/* The key of {attr.a}:{attr.b} for two values. */
static struct weir__slice key_of(const struct rules *r, struct weir__slice a, struct weir__slice b,
                                 char *scratch)
{
    struct rules_request q;
    struct weir__slice key = {NULL, 0};

    rules_request_init(&q, r, scratch, RULES_SCRATCH, 64);
    if (rules_request_set(&q, weir__slice_of("attr.a"), a) == RULES_SET &&
        rules_request_set(&q, weir__slice_of("attr.b"), b) == RULES_SET)
        (void)rules_key(&q, 0, 0, &key);
    return key;
}

/* The text cut at two places gives two pairs of values: they have the same key only if they are the
 * same. */
static void check_keys(struct weir__slice text)
{
    static char scratch[2][RULES_SCRATCH];
    struct rules *r = rules_open();
    struct rules_why why;

    if (!r || !rules_add(r, weir__slice_of(""), false, &why) ||
        !rules_apply(r, weir__slice_of("l"), weir__slice_of("{attr.a}:{attr.b}"), 1, 0, &why) ||
        !rules_finish(r))
        abort();
    for (size_t i = 0; i < text.len && i < 64; i++)
        for (size_t k = i + 1; k <= text.len && k < 65; k++) {
            const struct weir__slice one =
                key_of(r, (struct weir__slice){text.at, i},
                       (struct weir__slice){text.at + i, text.len - i}, scratch[0]);
            const struct weir__slice other =
                key_of(r, (struct weir__slice){text.at, k},
                       (struct weir__slice){text.at + k, text.len - k}, scratch[1]);

            if (one.at && other.at && weir__slice_equal(one, other))
                abort();
        }
    rules_close(r);
}

/* The rules of the lines; NULL: they have a mistake. */
static struct rules *rules_read(struct weir__slice rest)
{
    struct rules *r = rules_open();
    bool within = false, good = r != NULL;

    if (!r)
        abort();
    while (good && rest.len > 0) {
        const struct weir__slice line = line_next(&rest);

        if (line.len > 0 && line.at[0] != 'Q')
            good =
                rule_line(r, line.at[0], (struct weir__slice){line.at + 1, line.len - 1}, &within);
    }
    if (good && rules_finish(r))
        return r;
    rules_close(r);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char scratch[RULES_SCRATCH];
    struct weir__slice rest = {(const char *)data, size};
    struct rules *r = rules_read(rest);
    struct rules_request q;

    if (r)
        rules_request_init(&q, r, scratch, sizeof scratch, 64);
    while (rest.len > 0) {
        const struct weir__slice line = line_next(&rest);

        check_path(line);
        if (line.len > 0 && line.at[0] == 'K')
            check_keys(line);
        if (r && line.len > 0 && line.at[0] == 'Q')
            request_line(&q, (struct weir__slice){line.at + 1, line.len - 1});
    }
    if (r)
        check_matches(&q, r);
    rules_close(r);
    return 0;
}
