/* COMMAND: the table, as Redis 7 describes commands. */
#include <string.h>

#include "server/resp/resp_front.h"

/* ---- A row ----------------------------------------------------------------------------------- */

/* The words that apply to a row, at most MOST_WORDS of them. */
#define MOST_WORDS 4
struct row_words {
    size_t n;
    const char *word[MOST_WORDS];
};

static bool row_is_of(const struct resp_row *row, const char *group)
{
    return strcmp(row->group, group) == 0;
}

static struct row_words flags_of(const struct resp_row *row)
{
    struct row_words w = {0};

    if (row->flags & RESP_WRITES)
        w.word[w.n++] = "write";
    else if (row->flags & RESP_READS)
        w.word[w.n++] = "readonly";
    else
        w.word[w.n++] = "loading";
    w.word[w.n++] = "fast";
    return w;
}

/* Redis's categories of its access lists. */
static struct row_words categories_of(const struct resp_row *row)
{
    struct row_words w = {0};

    w.word[w.n++] = "@fast";
    if (row->flags & (RESP_WRITES | RESP_READS))
        w.word[w.n++] = row->flags & RESP_WRITES ? "@write" : "@read";
    if (row->flags & RESP_ADMINS)
        w.word[w.n++] = "@admin";
    if (row_is_of(row, "connection"))
        w.word[w.n++] = "@connection";
    else if (row_is_of(row, "transactions"))
        w.word[w.n++] = "@transaction";
    return w;
}

static void resp_reply_words(struct conn *c, struct row_words w)
{
    resp_reply_array(c, w.n);
    for (size_t i = 0; i < w.n; i++)
        out_done(c, resp_simple(out_room(c, strlen(w.word[i]) + 3), w.word[i]));
}

/* Where the keys are, in the form that Redis has since version 7. */
static void resp_reply_key_specs(struct conn *c, const struct resp_row *row)
{
    const bool writes = row->flags & RESP_WRITES;

    if (row->first_key == 0) {
        resp_reply_array(c, 0);
        return;
    }
    resp_reply_array(c, 1);
    resp_reply_pairs(c, 3);
    resp_reply_text(c, "flags");
    resp_reply_words(c, writes ? (struct row_words){3, {"RW", "access", "update"}}
                               : (struct row_words){2, {"RO", "access"}});
    resp_reply_text(c, "begin_search");
    resp_reply_pairs(c, 2);
    resp_reply_pair(c, "type", "index");
    resp_reply_text(c, "spec");
    resp_reply_pairs(c, 1);
    resp_reply_text(c, "index");
    resp_reply_int(c, row->first_key);
    resp_reply_text(c, "find_keys");
    resp_reply_pairs(c, 2);
    resp_reply_pair(c, "type", "range");
    resp_reply_text(c, "spec");
    resp_reply_pairs(c, 3);
    resp_reply_text(c, "lastkey"); /* from the first key, unless it is counted from the end */
    resp_reply_int(c, row->last_key < 0 ? row->last_key : row->last_key - row->first_key);
    resp_reply_text(c, "keystep");
    resp_reply_int(c, row->key_step);
    resp_reply_text(c, "limit");
    resp_reply_int(c, 0);
}

/* Name, arity, flags, first key, last key, step; categories, tips, where keys are, subcommands. */
static void resp_reply_row(struct conn *c, const struct resp_row *row)
{
    const bool fixed = row->least == row->most;

    resp_reply_array(c, 10);
    resp_reply_text(c, row->name);
    resp_reply_int(c, fixed ? (int64_t)row->least : -(int64_t)row->least);
    resp_reply_words(c, flags_of(row));
    resp_reply_int(c, row->first_key);
    resp_reply_int(c, row->last_key);
    resp_reply_int(c, row->key_step);
    resp_reply_words(c, categories_of(row));
    resp_reply_array(c, 0);
    resp_reply_key_specs(c, row);
    resp_reply_array(c, 0);
}

/* One argument stands for all: redis-cli shows its text as a hint. */
static void resp_reply_doc(struct conn *c, const struct resp_row *row)
{
    const bool takes_words = row->usage[0] != '\0';

    resp_reply_text(c, row->name);
    resp_reply_pairs(c, takes_words ? 4 : 3);
    resp_reply_pair(c, "summary", row->summary);
    resp_reply_pair(c, "since", WEIR_VERSION);
    resp_reply_pair(c, "group", row->group);
    if (!takes_words)
        return;
    resp_reply_text(c, "arguments");
    resp_reply_array(c, 1);
    resp_reply_pairs(c, 3);
    resp_reply_pair(c, "name", row->usage);
    resp_reply_pair(c, "type", "string");
    resp_reply_pair(c, "display_text", row->usage);
}

/* ---- Several rows ---------------------------------------------------------------------------- */

/* Without names, all. Of names that are unknown DOCS has nothing, INFO a null. */
static void resp_reply_infos(struct conn *c, struct resp_words w, size_t from)
{
    const size_t names = w.n > from ? w.n - from : 0;

    resp_reply_array(c, names > 0 ? names : RESP_COMMANDS_N);
    for (size_t i = 0; names == 0 && i < RESP_COMMANDS_N; i++)
        resp_reply_row(c, &RESP_COMMANDS[i]);
    for (size_t i = 0; i < names; i++) {
        const struct resp_row *row = resp_row_of(w.word[from + i]);

        row ? resp_reply_row(c, row) : resp_reply_null(c);
    }
}

static void resp_reply_docs(struct conn *c, struct resp_words w)
{
    size_t n = 0;

    for (size_t i = 2; i < w.n; i++)
        n += resp_row_of(w.word[i]) != NULL;
    resp_reply_pairs(c, w.n > 2 ? n : RESP_COMMANDS_N);
    for (size_t i = 0; w.n == 2 && i < RESP_COMMANDS_N; i++)
        resp_reply_doc(c, &RESP_COMMANDS[i]);
    for (size_t i = 2; i < w.n; i++)
        if (resp_row_of(w.word[i]))
            resp_reply_doc(c, resp_row_of(w.word[i]));
}

/* [FILTERBY PATTERN pattern | ACLCAT category | MODULE name] */
static bool list_has(struct resp_words w, const struct resp_row *row)
{
    const struct row_words in = categories_of(row);

    if (w.n == 2)
        return true;
    if (resp_word_is(w.word[3], "PATTERN"))
        return resp_word_matches(w.word[4], row->name);
    for (size_t i = 0; resp_word_is(w.word[3], "ACLCAT") && i < in.n; i++)
        if (resp_word_is(w.word[4], in.word[i] + 1))
            return true;
    return false;
}

static void resp_list_commands(struct conn *c, struct resp_words w)
{
    size_t n = 0;

    if (w.n != 2 && (w.n != 5 || !resp_word_is(w.word[2], "FILTERBY"))) {
        resp_reply_error(c, "syntax error: expected LIST [FILTERBY PATTERN|ACLCAT|MODULE text]");
        return;
    }
    for (size_t i = 0; i < RESP_COMMANDS_N; i++)
        n += list_has(w, &RESP_COMMANDS[i]);
    resp_reply_array(c, n);
    for (size_t i = 0; i < RESP_COMMANDS_N; i++)
        if (list_has(w, &RESP_COMMANDS[i]))
            resp_reply_text(c, RESP_COMMANDS[i].name);
}

/* The keys of the command that follows. */
static void resp_reply_keys(struct conn *c, struct resp_words w)
{
    const struct resp_words of = {w.n - 2, w.word + 2};
    const struct resp_row *row = resp_row_of(of.word[0]);
    size_t last, n = 0;

    if (!row) {
        resp_reply_error(c, "Invalid command specified");
    } else if (row->first_key == 0) {
        resp_reply_error(c, "The command has no key arguments");
    } else if (!resp_words_fit(row, of.n)) {
        resp_reply_error(c, "Invalid number of arguments specified for command");
    } else {
        last = row->last_key < 0 ? of.n - (size_t)-row->last_key : (size_t)row->last_key;
        for (size_t i = (size_t)row->first_key; i <= last; i += (size_t)row->key_step)
            n++;
        resp_reply_array(c, n);
        for (size_t i = (size_t)row->first_key; i <= last; i += (size_t)row->key_step)
            out_done(c, resp_bulk(out_room(c, RESP_INT_ROOM + of.word[i].len + 2), of.word[i].at,
                                  of.word[i].len));
    }
}

void resp_run_command(struct conn *c, struct resp_words w)
{
    if (w.n == 1)
        resp_reply_infos(c, w, 1);
    else if (resp_word_is(w.word[1], "COUNT") && w.n == 2)
        resp_reply_int(c, (int64_t)RESP_COMMANDS_N);
    else if (resp_word_is(w.word[1], "LIST"))
        resp_list_commands(c, w);
    else if (resp_word_is(w.word[1], "INFO"))
        resp_reply_infos(c, w, 2);
    else if (resp_word_is(w.word[1], "DOCS"))
        resp_reply_docs(c, w);
    else if (resp_word_is(w.word[1], "GETKEYS") && w.n > 2)
        resp_reply_keys(c, w);
    else
        resp_reply_no_form(c, w, "COUNT, LIST, INFO, DOCS or GETKEYS command ...");
}
