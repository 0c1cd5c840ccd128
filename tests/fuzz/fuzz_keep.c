/* Fuzzes the lines of the file of live changes (--keep).
 *
 * A line that is one, written again, is the same change. Records that are settled all at once are
 * those that were added one by one.
 */
#include <stdlib.h>
#include <string.h>

#include "server/live/keep_records.h"

#define LINES 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool slices_equal(struct weir__slice a, struct weir__slice b)
{
    return a.len == b.len && !!a.at == !!b.at && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

static void check_again(const struct change_line *l)
{
    char *line = keep_line_make(l), *text;
    struct change_line again;

    if (!line || !(text = malloc(strlen(line) + 1)))
        abort();
    if (strchr(line, '\n') != line + strlen(line) - 1 ||
        !keep_line_read((struct weir__slice){line, strlen(line) - 1}, text, &again) ||
        again.kind != l->kind || again.base != l->base || !slices_equal(again.name, l->name) ||
        !slices_equal(again.key, l->key) || !slices_equal(again.value, l->value))
        abort();
    free(text);
    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir__slice rest = {(const char *)data, size};
    struct records one_by_one = {0}, at_once = {0};
    char *text = malloc(size + 1);

    if (!text || !records_make_room(&one_by_one, LINES) || !records_make_room(&at_once, LINES))
        abort();
    for (int i = 0; i < LINES && rest.len > 0; i++) {
        const struct weir__slice line = weir__slice_cut(&rest, '\n');
        struct change_line l;

        if (keep_line_read(line, text, &l)) {
            check_again(&l);
            records_add(&one_by_one, keep_record_of(&l, keep_line_make(&l)));
            at_once.at[at_once.n++] = keep_record_of(&l, keep_line_make(&l));
        }
        if (rest.len > 0)
            rest = (struct weir__slice){rest.at + 1, rest.len - 1};
    }
    if (!records_settle(&at_once) || at_once.n != one_by_one.n)
        abort();
    for (size_t i = 0; i < at_once.n; i++)
        if (strcmp(at_once.at[i].line, one_by_one.at[i].line) != 0)
            abort();
    records_clear(&one_by_one);
    records_clear(&at_once);
    free(one_by_one.at);
    free(at_once.at);
    free(text);
    return 0;
}
