/* The reader of the configuration file: what it reports and where, and what it accepts. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cli/config_keys.h"
#include "config/config.h"

/* ---- Mistakes -------------------------------------------------------------------------------- */

struct row {
    const char *sentence;
    const char *text;
    const char *mistakes; /* "line:column text" of each, a beginning of it, one a line; or "" */
};

static const struct row ROWS[] = {
    {"accepts limits as texts and as maps", "limits:\n  a: 10/s\n  b: {limit: 10/s, store: x}\n",
     ""},
    {"accepts what has nothing in it", "limits:\nstores: ~\ninclude:\nlog:\n", ""},
    {"accepts one address or a list", "listen: [':1', {address: ':2', socket-mode: '0660'}]\n", ""},
    {"accepts a map in braces", "{limits: {a: 10/s}}", ""},
    {"accepts no keys at all, if that is said", "{}", ""},
    {"does not count a byte order mark", "\xEF\xBB\xBFthreds: 1\n", "1:1 unknown key 'threds'"},
    {"refuses an empty file", "", "0:0 the file is empty"},
    {"refuses a file of comments", "# a: b\n", "0:0 the file is empty"},
    {"refuses a list at the top", "- a\n", "1:1 the file has a list: expected keys"},
    {"names a key that is nearly one", "threds: 2\n",
     "1:1 unknown key 'threds'; did you mean 'threads'?"},
    {"names a key that is none", "colour: red\n", "1:1 unknown key 'colour': expected one such as"},
    {"names a key of a section", "log: {levl: info}\n",
     "1:7 unknown key 'levl': expected one of level, format, to; did you mean 'level'?"},
    {"does not take a section's name with a dot", "log.level: info\n",
     "1:1 unknown key 'log.level'"},
    {"reports all of them, in order",
     "threads:\nlimits:\n  a: [1]\n  b: {limt: 1/s}\n  c:\nstores: 3\n",
     "1:9 'threads' needs a value: expected 1 to 256 threads\n"
     "3:6 'a' has a list: expected a limit such as\n"
     "4:3 'b' has no 'limit': expected a limit\n"
     "4:7 unknown key 'limt': expected limit or store; did you mean 'limit'?\n"
     "5:5 'c' needs a value\n"
     "6:9 'stores' has a single value: expected names of stores"},
    {"finds a key twice in a map", "limits:\n  a: 1/s\n  b: 2/s\n  a: 3/s\n",
     "4:3 'a' is here twice: first at line 2, column 3"},
    {"finds a key three times", "threads: 1\nthreads: 2\nthreads: 3\n",
     "2:1 'threads' is here twice: first at line 1, column 1\n"
     "3:1 'threads' is here twice: first at line 1, column 1"},
    {"finds a tab", "limits:\n\ta: 1/s\n", "2:1 a tab: expected blanks"},
    {"says what is no YAML, and reads what is before it", "threds: 2\na: b: c\n",
     "1:1 unknown key 'threds'; did you mean 'threads'?\n"
     "2:1 unknown key 'a'\n"
     "2:5 not valid YAML at ':': mapping values are not allowed"},
    {"does not miss keys of a map that ends in no YAML", "limits:\n  a: {store: x\n",
     "3:1 not valid YAML: did not find expected ',' or '}'"},
    {"counts characters, not bytes", "limits: {\xC3\xA4\xC3\xB6: [x]}\n", "1:14 "},
    {"refuses bytes that are no text", "a: \xFF\n", "1:4 not valid text"},
    {"refuses an escape for a NUL", "threads: \"\\0\"\n", "1:10 a value with a NUL"},
    {"refuses tags", "threads: !!int 3\n", "1:10 tags (!name) are not supported"},
    {"refuses merge keys", "<<: {a: b}\n", "1:1 merge keys (<<) are not supported"},
    {"refuses a second document", "threads: 1\n---\nthreads: 2\n", "2:1 a second document"},
    {"refuses keys that are lists", "[a]: b\n", "1:1 a key must be a word"},
    {"has overrides and lists",
     "overrides: {a: {keys: {k: 1/s}, prefixes: {p: 2/s}}}\nlists: {a: {allow: x, deny: [y, z]}}\n",
     ""},
    {"refuses what is no override",
     "overrides: {a: {keys: [k], prefixs: {}}, b: 1/s}\nlists: {a: {alow: x, deny: {y: z}}}\n",
     "1:23 'keys' has a list\n1:28 unknown key 'prefixs': expected keys or prefixes; did you mean "
     "'prefixes'?\n1:45 'b' has a single value\n2:13 unknown key 'alow': expected allow or deny; "
     "did you mean 'allow'?\n2:28 'deny' has a map"},
    {"follows a reference", "limits: {a: &x 10/s, b: *x}\n", ""},
    {"shows a mistake where it was written", "limits:\n  a: &x [1]\n  b: *x\n",
     "2:6 'a' has a list\n2:6 'b' has a list"},
    {"refuses a reference to nothing", "limits: *x\n", "1:9 a reference (*name) without"},
    {"refuses what contains itself", "limits: &x {a: *x}\n", "1:16 a reference to what it is part"},
    {"refuses what is nested deeply", "limits: [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]\n",
     "1:9 'limits' has a list\n1:24 more than 16 lists and maps"},
};

/* Compares the mistakes with the lines of a row; false and prints them if they differ. */
static bool has_mistakes(struct config *c, const char *wanted, const char *sentence)
{
    size_t i = 0;

    config_sort(c);
    while (*wanted) {
        const size_t len = strcspn(wanted, "\n");
        char line[1024] = "";

        if (i < c->mistakes)
            (void)snprintf(line, sizeof line, "%d:%d %s", c->mistake[i].line, c->mistake[i].column,
                           c->mistake[i].text);
        if (strncmp(line, wanted, len) != 0) {
            print_error("%s:\n  expected %.*s\n  got      %s\n", sentence, (int)len, wanted, line);
            return false;
        }
        i++;
        wanted += len + (wanted[len] == '\n');
    }
    if (i < c->mistakes)
        print_error("%s: also %d:%d %s\n", sentence, c->mistake[i].line, c->mistake[i].column,
                    c->mistake[i].text);
    return i == c->mistakes;
}

static void reports_what_is_wrong_and_where(void **state)
{
    int failed = 0;

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct config *c =
            config_open_bytes("f", ROWS[i].text, strlen(ROWS[i].text), config_keys());

        assert_non_null(c);
        failed += !has_mistakes(c, ROWS[i].mistakes, ROWS[i].sentence);
        config_close(c);
    }
    assert_int_equal(failed, 0);
}

/* ---- Columns within a value ------------------------------------------------------------------ */

/* The '!' is what the value's user complains about: its place in the value and in the file. */
static const struct {
    const char *sentence, *text;
    int line, column;
} COLUMNS[] = {
    {"plain", "limits:\n  a: one two !x\n", 2, 14},
    {"in single quotes", "limits:\n  a: 'one '' !x'\n", 2, 14},
    {"in double quotes", "limits:\n  a: \"one \\x41\\u00e4\\t !x\"\n", 2, 24},
    {"with two blanks", "limits:\n  a: one   !x\n", 2, 12},
    {"behind other letters", "limits:\n  a: \xC3\xA4\xC3\xA4 !x\n", 2, 9},
    {"folded", "limits:\n  a: >\n    one\n    two !x\n", 4, 9},
    {"literal", "limits:\n  a: |\n    one\n    two !x\n", 4, 9},
    {"plain over two lines", "limits:\n  a: one\n    two !x\n", 3, 9},
    {"quoted over two lines", "limits:\n  a: \"one\n    two\\\n    !x\"\n", 4, 5},
    {"at its beginning", "limits:\n  a: \"!x\"\n", 2, 7},
    {"behind carriage returns", "limits:\r\n  a: one !x\r\n", 2, 10},
};

static void finds_the_column_within_a_value(void **state)
{
    int failed = 0;

    (void)state;
    for (size_t i = 0; i < sizeof COLUMNS / sizeof COLUMNS[0]; i++) {
        struct config *c =
            config_open_bytes("f", COLUMNS[i].text, strlen(COLUMNS[i].text), config_keys());
        const struct config_text *limit = &c->limits->limit;

        assert_int_equal(c->mistakes, 0);
        config_blame(c, limit->at, (int)(strchr(limit->text, '!') - limit->text) + 1, "here");
        if (c->mistake[0].line != COLUMNS[i].line || c->mistake[0].column != COLUMNS[i].column) {
            print_error("%s: expected %d:%d, got %d:%d\n", COLUMNS[i].sentence, COLUMNS[i].line,
                        COLUMNS[i].column, c->mistake[0].line, c->mistake[0].column);
            failed++;
        }
        config_close(c);
    }
    assert_int_equal(failed, 0);
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

/* Reads a text that is made of a beginning and many of a part (with its number). */
static struct config *read_many(const char *begin, const char *part, int n)
{
    char *text = malloc(strlen(begin) + (strlen(part) + 24) * (size_t)n + 1), *at = text;
    struct config *c;

    assert_non_null(text);
    at += sprintf(at, "%s", begin);
    for (int i = 0; i < n; i++)
        at += sprintf(at, part, i, i);
    c = config_open_bytes("f", text, (size_t)(at - text), config_keys());
    free(text);
    return c;
}

static void bounds_what_a_file_costs(void **state)
{
    /* each refers ten times to the one before it: 10^20 values */
    char laughs[4096] = "a0: &a0 [x]\n", *at = laughs + strlen(laughs);
    struct config *c;

    (void)state;
    for (int i = 1; i <= 20; i++) {
        at += sprintf(at, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++)
            at += sprintf(at, "%s*a%d", k ? "," : "", i - 1);
        at += sprintf(at, "]\n");
    }
    c = config_open_bytes("f", laughs, strlen(laughs), config_keys());
    assert_int_equal(c->mistakes, 21); /* unknown keys */
    config_close(c);

    c = read_many("limits:\n", "  n%d: [%d]\n", 1000);
    assert_int_equal(c->mistakes, 1000);
    assert_int_equal(c->mistake[CONFIG_MISTAKES - 1].line, 101);
    config_close(c);
    c = read_many("x:\n", "-\n", CONFIG_NODES);
    assert_true(has_mistakes(c, "1:1 unknown key 'x'\n3999999:2 the configuration has more than",
                             "values"));
    config_close(c);
    c = read_many("x:\n", "- &a%d %d\n", CONFIG_ANCHORS + 1);
    assert_true(has_mistakes(c, "1:1 unknown key 'x'\n102:3 more than 100 anchors", "anchors"));
    config_close(c);
    c = read_many("x:\n- &a b\n", "- *a #%d %d\n", CONFIG_ALIASES + 1);
    assert_true(
        has_mistakes(c, "1:1 unknown key 'x'\n1003:3 more than 1000 references", "references"));
    config_close(c);
}

static void refuses_a_nul(void **state)
{
    static const char TEXT[] = "threads: 2\nmax\0-keys: 3\n";
    struct config *c = config_open_bytes("f", TEXT, sizeof TEXT - 1, config_keys());

    (void)state;
    assert_true(has_mistakes(c, "2:4 a NUL byte", "a NUL"));
    config_close(c);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* Every option of `weir serve` that a file can have is a key. */
static void knows_every_option(void **state)
{
    size_t keys = 0, options = 0;

    (void)state;
    for (const struct config_key *k = config_keys(); k->name; k++, keys++) {
        assert_non_null(k->help);
        assert_non_null(k->expected);
        assert_non_null(config_key_option(k));
    }
    while (SERVE_COMMAND.options[options].name)
        options++;
    assert_int_equal(options, keys + 7); /* --config --clock --limit --store, --*listen */
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(reports_what_is_wrong_and_where),
    cmocka_unit_test(finds_the_column_within_a_value),
    cmocka_unit_test(bounds_what_a_file_costs),
    cmocka_unit_test(refuses_a_nul),
    cmocka_unit_test(knows_every_option),
};
RUN("config", TESTS)
