/* Rules: paths, globs, keys, what matches, what could come together; and the index against a plain
 * matcher that looks at every rule. */
#include <stdlib.h>
#include <string.h>

#include <weir.h>

#include "check.h"
#include "rules/rules.h"

static char scratch[RULES_SCRATCH];

static struct weir__slice slice(const char *text)
{
    return weir__slice_of(text);
}

static void is_text(const char *name, struct weir__slice got, const char *expected)
{
    if (got.len == strlen(expected) && memcmp(got.at, expected, got.len) == 0)
        return;
    fail_msg("%s: got '%.*s', expected '%s'", name, (int)got.len, got.at, expected);
}

/* ---- Paths ----------------------------------------------------------------------------------- */

static void paths_are_compared_in_one_form(void **state)
{
    static const struct {
        const char *name, *path, *expected;
    } ROWS[] = {
        {"a plain one stays", "/a/b", "/a/b"},
        {"the query goes", "/a?b=/c/../d", "/a"},
        {"the fragment goes", "/a#b", "/a"},
        {"double slashes are one", "//a///b", "/a/b"},
        {"a slash at the end stays", "/a/", "/a/"},
        {"slashes at the end are one", "/a//", "/a/"},
        {"a dot goes", "/a/./b", "/a/b"},
        {"a dot at the end leaves its slash", "/a/.", "/a/"},
        {"two dots take a segment", "/a/../b", "/b"},
        {"two dots at the end leave a slash", "/a/b/..", "/a/"},
        {"two dots stop at the root", "/../../a", "/a"},
        {"nothing is left", "/..", "/"},
        {"names with dots stay", "/.a/..b/c../...", "/.a/..b/c../..."},
        {"it is decoded", "/%61dmin", "/admin"},
        {"dots are decoded before they go", "/a/%2e%2E/b", "/b"},
        {"an encoded slash is a slash", "/a%2Fb", "/a/b"},
        {"an encoded question mark is no query", "/a%3fb", "/a?b"},
        {"it is decoded once", "/%252e%252e/a", "/%2e%2e/a"},
        {"half a percent stays", "/a%2", "/a%2"},
        {"a percent that is no hex stays", "/a%zz", "/a%zz"},
        {"a URL has a path", "https://x.example:8443/a/../b?c", "/b"},
        {"a URL without one has the root", "http://x.example", "/"},
        {"a URL with a query only has the root", "http://x.example?a=/b", "/"},
        {"a scheme within a path is none", "/a/http://b", "/a/http:/b"},
        {"what is no path stays", "*", "*"},
        {"a relative one stays", "a/../b", "a/../b"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        char copy[128];

        strcpy(copy, ROWS[i].path);
        is_text(ROWS[i].name, rules_path_normal(copy, strlen(copy)), ROWS[i].expected);
    }
}

static void globs_fit_segments(void **state)
{
    static const struct {
        const char *glob, *path;
        bool fits;
    } ROWS[] = {
        {"/a/*", "/a/b", true},        {"/a/*", "/a/b/c", false},
        {"/a/*", "/a/", true},         {"/a/*", "/a", false},
        {"/a/**", "/a/b/c", true},     {"/a/**", "/a/", true},
        {"/a/**", "/a", false},        {"/**/c", "/a/b/c", true},
        {"/**/c", "/c", false},        {"/**c", "/c", true},
        {"/a?c", "/abc", true},        {"/a?c", "/a/c", false},
        {"/*/b/*", "/a/b/c", true},    {"/*/b/*", "/a/x/c", false},
        {"/*.png", "/a.png", true},    {"/*.png", "/a/b.png", false},
        {"/**.png", "/a/b.png", true}, {"/a*b*c", "/aXbYc", true},
        {"/a*b*c", "/aXb/c", false},   {"/a", "/a", true},
        {"/a", "/ab", false},          {"/**", "/", true},
        {"/a**b*c", "/a/x/bc", true},  {"/***", "/a/b", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++)
        if (rules_glob_fits(slice(ROWS[i].glob), slice(ROWS[i].path)) != ROWS[i].fits)
            fail_msg("%s %s: expected %d", ROWS[i].glob, ROWS[i].path, ROWS[i].fits);
}

/* Trying and going back would take years. */
static void a_glob_of_stars_is_quick(void **state)
{
    char glob[RULES_GLOB_MOST + 1] = "/", path[RULES_PATH_MOST];

    (void)state;
    while (strlen(glob) < 120)
        strcat(glob, "*a**a");
    strcat(glob, "b");
    path[0] = '/';
    memset(path + 1, 'a', sizeof path - 1);
    assert_false(rules_glob_fits(slice(glob), (struct weir__slice){path, sizeof path}));
}

/* ---- Building -------------------------------------------------------------------------------- */

/* "NAME[!] [?] FIELD=VALUE,VALUE ... -> KEY [KEY ...]"; ~ before a value is a prefix, % a glob. A
 * name with ! is final, a lone ? is missing: skip. */
static void add_rule(struct rules *r, const char *text)
{
    char copy[512], *rest = copy, *word;
    struct rules_why why = {0};
    bool applies = false, skip = false;
    uint32_t tag = 0;

    strcpy(copy, text);
    word = strsep(&rest, " ");
    const bool final = word[strlen(word) - 1] == '!';

    word[strlen(word) - final] = '\0';
    if (!rules_add(r, slice(word), final, &why))
        fail_msg("%s: %s", text, why.text);
    while ((word = strsep(&rest, " ")) != NULL) {
        if (strcmp(word, "->") == 0) {
            applies = true;
        } else if (strcmp(word, "?") == 0) {
            skip = true;
        } else if (applies) {
            if (!rules_apply(r, slice("limit"), slice(word), 1, tag++, &why))
                fail_msg("%s: %s", text, why.text);
        } else {
            char *value = word, *field = strsep(&value, "=");
            const enum rules_test test = value[0] == '~'   ? RULES_PREFIX
                                         : value[0] == '%' ? RULES_GLOB
                                                           : RULES_EXACT;

            value += test != RULES_EXACT;
            if (!rules_condition(r, slice(field), test, &why))
                fail_msg("%s: %s", text, why.text);
            while (value) {
                char *one = strsep(&value, ",");

                if (!rules_value(r, slice(one), &why))
                    fail_msg("%s: %s", text, why.text);
            }
        }
    }
    if (skip)
        assert_true(rules_skip_missing(r, &why));
}

static struct rules *rules_of(const char *const *texts)
{
    struct rules *r = rules_open();

    assert_non_null(r);
    for (; *texts; texts++)
        add_rule(r, *texts);
    assert_true(rules_finish(r));
    return r;
}

/* "path=/x method=GET" */
static void fill(struct rules_request *q, const struct rules *r, const char *text)
{
    static char copies[8][512];
    static unsigned turn;
    char *rest = copies[turn++ % 8], *word;

    strcpy(rest, text);
    rules_request_init(q, r, scratch, sizeof scratch, 64);
    while ((word = strsep(&rest, " ")) != NULL && word[0]) {
        char *value = word, *name = strsep(&value, "=");

        assert_int_equal(rules_request_set(q, slice(name), slice(value)), RULES_SET);
    }
}

/* "a b": the rules that apply. */
static void names_of(const struct rules *r, const struct rules_matches *m, char out[512])
{
    struct weir__out o = {out, 512, 0};

    for (size_t i = 0; i < m->n; i++) {
        char room[RULES_NAME_ROOM];
        const struct weir__slice name = rules_name(r, m->rule[i], room);

        weir__out_text(&o, i > 0 ? " " : "");
        weir__out_bytes(&o, name.at, name.len);
    }
    (void)weir__out_end(&o);
}

static void rules_match_by_all_their_conditions(void **state)
{
    static const char *const RULES[] = {
        "health! path=/healthz",
        "login path=~/login method=POST,PUT -> {ip}",
        "api host=api.example.com,*.api.example.com -> {ip}",
        "inside ip=10.0.0.0/8,2001:db8::/32 -> {ip}",
        "key header.X-Api-Key=* -> {header.x-api-key}",
        "acme attr.tenant=acme -> {attr.tenant}",
        "img path=%/img/**.png -> {path}",
        "skips ? path=/skips -> {attr.user}:{ip}",
        "stop! path=~/stop -> {ip}",
        "all -> {ip}",
        NULL,
    };
    static const struct {
        const char *name, *request, *expected;
    } ROWS[] = {
        {"only the rule without a condition", "path=/x", "all"},
        {"a final one ends it", "path=/healthz", "health"},
        {"it is compared decoded and without dots", "path=/a/..//health%7a", "health"},
        {"a prefix and a method", "path=/login/a method=POST", "login all"},
        {"methods in any case", "path=/login method=put", "login all"},
        {"another method", "path=/login method=GET", "all"},
        {"no method", "path=/login", "all"},
        {"a prefix is no whole segment", "path=/loginX method=POST", "login all"},
        {"a host", "host=api.example.com", "api all"},
        {"a host in any case, with a port and a dot", "host=API.example.COM.:8443", "api all"},
        {"a host below", "host=eu.api.example.com", "api all"},
        {"a host that only ends so", "host=xapi.example.com", "all"},
        {"a network", "ip=10.1.2.3", "inside all"},
        {"a mapped address", "ip=::ffff:10.1.2.3", "inside all"},
        {"another network", "ip=11.1.2.3", "all"},
        {"a network of IPv6", "ip=2001:db8:1::1", "inside all"},
        {"a header with any value", "header.X-API-KEY=k", "key all"},
        {"an empty header is missing", "header.x-api-key=", "all"},
        {"an attribute", "attr.tenant=acme", "acme all"},
        {"a free name is an attribute", "tenant=acme", "acme all"},
        {"values of attributes have their case", "tenant=Acme", "all"},
        {"a glob", "path=/img/a/b.png", "img all"},
        {"a glob that does not fit", "path=/img/a/b.jpg", "all"},
        {"missing: skip", "path=/skips", "all"},
        {"missing: skip, and half of it is there", "path=/skips user=u", "all"},
        {"missing: skip, and it is there", "path=/skips user=u ip=1.2.3.4", "skips all"},
        {"a final one with others before it", "path=/stop/x tenant=acme", "acme stop"},
        {"all in their order",
         "path=/login method=POST host=api.example.com ip=10.0.0.1 tenant=acme",
         "login api inside acme all"},
    };
    struct rules *r = rules_of(RULES);

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct rules_request q;
        struct rules_matches m;
        char got[512];

        fill(&q, r, ROWS[i].request);
        rules_match(&q, &m);
        names_of(r, &m, got);
        if (strcmp(got, ROWS[i].expected) != 0)
            fail_msg("%s: %s: got '%s', expected '%s'", ROWS[i].name, ROWS[i].request, got,
                     ROWS[i].expected);
    }
    rules_close(r);
}

static void what_is_wrong_is_told(void **state)
{
    static const struct {
        const char *name, *field, *value;
        enum rules_test test;
        const char *expected;
    } ROWS[] = {
        {"a path without a slash", "path", "x", RULES_EXACT, "begins with /"},
        {"a path that no request has", "path", "/a//b", RULES_EXACT, "expected '/a/b'"},
        {"a prefix that no request has", "path", "/a/../b", RULES_PREFIX, "expected '/b'"},
        {"a path with a query", "path", "/a?b", RULES_EXACT, "without its query"},
        {"no network", "ip", "10.0.0/8", RULES_EXACT, "not an address"},
        {"bits behind the prefix", "ip", "10.0.0.1/8", RULES_EXACT, "bits behind the prefix"},
        {"a star within a host", "host", "a.*.b", RULES_EXACT, "*.example.com"},
        {"an unknown field", "cookie", "a", RULES_EXACT, "unknown field 'cookie'"},
        {"a header without a name", "header.", "a", RULES_EXACT, "unknown field"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct rules *r = rules_open();
        struct rules_why why = {0};

        assert_true(rules_add(r, slice("a"), false, &why));
        assert_false(rules_condition(r, slice(ROWS[i].field), ROWS[i].test, &why) &&
                     rules_value(r, slice(ROWS[i].value), &why));
        if (!strstr(why.text, ROWS[i].expected))
            fail_msg("%s: got '%s'", ROWS[i].name, why.text);
        rules_close(r);
    }
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static void templates_are_read(void **state)
{
    static const struct {
        const char *key, *expected; /* "": good */
        int column;
    } ROWS[] = {
        {"{ip}", "", 0},
        {"{ip/56}", "", 0},
        {"all", "", 0},
        {"{{x}}", "", 0},
        {"a{attr.b}c{path}", "", 0},
        {"", "1 to 1024 bytes", 0},
        {"{", "without its '}'", 1},
        {"a}", "without its '{'", 2},
        {"{ip", "without its '}'", 1},
        {"{}", "expected a field", 1},
        {"{ip/0}", "1 to 128", 1},
        {"{ip/129}", "1 to 128", 1},
        {"{ip/x}", "1 to 128", 1},
        {"x{cookie}", "unknown field 'cookie'", 3},
        {"{header.}", "unknown field", 2},
        {"{a}{b", "unknown field 'a'", 2},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct rules *r = rules_open();
        struct rules_why why = {0};
        bool good;

        assert_true(rules_add(r, slice("a"), false, &why));
        good = rules_apply(r, slice("l"), slice(ROWS[i].key), 1, 0, &why);
        if (good != !ROWS[i].expected[0] || !strstr(why.text, ROWS[i].expected) ||
            why.column != ROWS[i].column)
            fail_msg("%s: got column %d '%s'", ROWS[i].key, why.column, why.text);
        rules_close(r);
    }
}

static struct weir__slice key_of(struct rules_request *q, uint32_t rule)
{
    struct weir__slice key;

    assert_true(rules_key(q, rule, 0, &key));
    return key;
}

static void keys_are_made(void **state)
{
    static const char *const RULES[] = {"ip -> {ip}",
                                        "net -> {ip/48}",
                                        "whole -> {ip/128}",
                                        "text -> all{{}}",
                                        "header -> {header.x-key}",
                                        "two -> {attr.a}:{attr.b}",
                                        "host -> {host}",
                                        NULL};
    struct rules *r = rules_of(RULES);
    struct rules_request q;
    struct weir_bytes part[3] = {{"p", 1}, {":", 1}, {"q:", 2}};
    char joined[64] = "", shown[64];
    struct weir__out o = {shown, sizeof shown, 0};
    size_t len;

    (void)state;
    fill(&q, r, "ip=2001:db8:1:2:3::4 a=p b=q: host=X.Example:80");
    is_text("an IPv6 client is its network", key_of(&q, 0), "2001:db8:1:2::/64");
    is_text("with so many bits", key_of(&q, 1), "2001:db8:1::/48");
    is_text("with all bits", key_of(&q, 2), "2001:db8:1:2:3::4");
    is_text("braces", key_of(&q, 3), "all{}");
    is_text("what is missing is empty", key_of(&q, 4), "");
    len = 1 + weir_key_join(joined + 1, sizeof joined - 1, part, 3);
    assert_int_equal(key_of(&q, 5).len, len);
    assert_memory_equal(key_of(&q, 5).at, joined, len);
    is_text("a host is forwards and in lower case", key_of(&q, 6), "x.example");
    rules_key_shown(&q, 5, 0, &o);
    (void)weir__out_end(&o);
    assert_string_equal(shown, "\"p\" + \":\" + \"q:\"");
    fill(&q, r, "ip=192.0.2.7");
    is_text("an IPv4 client is its address", key_of(&q, 1), "192.0.2.7");
    rules_close(r);
}

/* Whatever the values: other parts, another key. */
static void keys_do_not_collide(void **state)
{
    static const char *const RULES[] = {"two -> {attr.a}:{attr.b}", "one -> {attr.a}",
                                        "none -> {attr.a}{attr.b}", NULL};
    static const char *const VALUES[] = {"",
                                         "a",
                                         ":",
                                         "a:",
                                         ":a",
                                         "a:a",
                                         "\x01"
                                         "a",
                                         "\0\x01"
                                         "a\x01:\0",
                                         "\0",
                                         "\0\0"};
    static const size_t LENS[] = {0, 1, 1, 2, 2, 3, 2, 6, 1, 2};
    enum { N = 10 };
    struct rules *r = rules_of(RULES);
    static struct {
        char key[64];
        size_t len;
    } made[3 * N * N];
    size_t n = 0;

    (void)state;
    for (uint32_t rule = 0; rule < 3; rule++)
        for (int a = 0; a < N; a++)
            for (int b = 0; b < (rule == 1 ? 1 : N); b++) {
                struct rules_request q;
                struct weir__slice key;

                rules_request_init(&q, r, scratch, sizeof scratch, 64);
                (void)rules_request_set(&q, slice("a"), (struct weir__slice){VALUES[a], LENS[a]});
                (void)rules_request_set(&q, slice("b"), (struct weir__slice){VALUES[b], LENS[b]});
                key = key_of(&q, rule);
                assert_true(key.len <= sizeof made[0].key);
                memcpy(made[n].key, key.at, key.len);
                made[n++].len = key.len;
            }
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++)
            if (made[i].len == made[k].len && memcmp(made[i].key, made[k].key, made[i].len) == 0)
                fail_msg("keys %zu and %zu are the same", i, k);
    rules_close(r);
}

/* ---- What could come together ---------------------------------------------------------------- */

static void what_could_come_together(void **state)
{
    static const struct {
        const char *name;
        const char *rules[8];
        int terms, stores; /* of the second tag: another store */
    } ROWS[] = {
        {"all without a condition", {"a -> 1", "b -> 1", "c -> 1"}, 3, 0},
        {"other paths exclude each other", {"a path=/a -> 1", "b path=/b -> 1"}, 1, 0},
        {"a prefix and its path", {"a path=~/a -> 1", "b path=/a/b -> 1", "c path=/c -> 1"}, 2, 0},
        {"a prefix of a prefix", {"a path=~/a -> 1", "b path=~/a/b -> 1", "c path=~/b -> 1"}, 2, 0},
        {"a glob that fits a path", {"a path=%/a/* -> 1", "b path=/a/b -> 1"}, 2, 0},
        {"a glob that does not", {"a path=%/a/*/c -> 1", "b path=/a/b -> 1"}, 1, 0},
        {"two globs with other heads", {"a path=%/a/* -> 1", "b path=%/b/* -> 1"}, 1, 0},
        {"other methods", {"a path=/a method=GET -> 1", "b path=/a method=PUT -> 1"}, 1, 0},
        {"methods in common", {"a method=GET,PUT -> 1", "b method=PUT -> 1"}, 2, 0},
        {"a path and a method", {"a path=/a -> 1", "b method=PUT -> 1"}, 2, 0},
        {"networks within each other", {"a ip=10.0.0.0/8 -> 1", "b ip=10.1.0.0/16 -> 1"}, 2, 0},
        {"networks beside each other", {"a ip=10.0.0.0/8 -> 1", "b ip=11.0.0.0/8 -> 1"}, 1, 0},
        {"a host and those below", {"a host=*.x.y -> 1", "b host=a.x.y -> 1"}, 2, 0},
        {"other hosts", {"a host=*.x.y -> 1", "b host=x.y -> 1"}, 1, 0},
        {"any value, and one", {"a attr.t=* -> 1", "b attr.t=x -> 1", "c attr.t=y -> 1"}, 2, 0},
        {"nothing behind a final one", {"a! -> 1", "b -> 1", "c -> 1"}, 1, 0},
        {"a final one, or the others", {"a! path=/a -> 1", "b -> 1", "c -> 1"}, 2, 0},
        {"those before a final one", {"a -> 1", "b! path=/a -> 1 2", "c -> 1"}, 3, 1},
        {"a limit in another store", {"a path=/a -> 1 2"}, 2, 1},
        {"another store, excluded", {"a path=/a -> 1", "b path=/b -> 1"}, 1, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        static const struct rules_weight WEIGHT[] = {{1, 0}, {1, 1}};
        static const struct rules_weight SAME[] = {{1, 0}, {1, 0}};
        struct rules *r = rules_of(ROWS[i].rules);
        struct rules_excess e;

        if (rules_together(r, WEIGHT, 16, &e) != ROWS[i].stores)
            fail_msg("%s: stores", ROWS[i].name);
        if (rules_together(r, SAME, (uint64_t)ROWS[i].terms, &e) != 0)
            fail_msg("%s: %d terms were too many", ROWS[i].name, ROWS[i].terms);
        if (rules_together(r, SAME, (uint64_t)ROWS[i].terms - 1, &e) != 1 || e.n == 0)
            fail_msg("%s: %d terms were not found", ROWS[i].name, ROWS[i].terms);
        rules_close(r);
    }
}

/* ---- Against a matcher that looks at every rule ---------------------------------------------- */

static uint64_t seed;

static uint32_t below(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % n;
}

enum { FIELDS = 6, RULES_N = 40 };
static const char *const FIELD[FIELDS] = {"path", "method", "host", "ip", "header.h", "attr.t"};
static const char *const PATHS[] = {"/", "/a", "/a/b", "/a/b/c", "/b", "/ab", "/a/", "/c/d.png"};
static const char *const METHODS[] = {"GET", "POST"};
static const char *const HOSTS[] = {"x.y", "a.x.y", "b.a.x.y", "z"};
static const char *const IPS[] = {"10.0.0.1", "10.1.0.1", "11.0.0.1", "2001:db8::1"};
static const char *const TEXTS[] = {"u", "v", "uv"};
static const char *const GLOBS[] = {"/*", "/a/*", "/**", "/a/**/c", "/?", "/c/*.png"};
static const char *const NETWORKS[] = {"10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0",
                                       "10.0.0.1",   "::/0",        "2001:db8::/32"};
static const char *const WILD[] = {"*.x.y", "*.y", "x.y", "a.x.y", "z", "*"};

#define ONE_OF(list) ((list)[below(sizeof(list) / sizeof(list)[0])])

struct plain_rule {
    bool final, has[FIELDS];
    enum rules_test test[FIELDS];
    int values[FIELDS];
    const char *value[FIELDS][3];
};

static const char *request_value(int field)
{
    switch (field) {
    case 0: return ONE_OF(PATHS);
    case 1: return ONE_OF(METHODS);
    case 2: return ONE_OF(HOSTS);
    case 3: return ONE_OF(IPS);
    }
    return ONE_OF(TEXTS);
}

static const char *rule_value(int field, enum rules_test test)
{
    if (field == 0)
        return test == RULES_GLOB ? ONE_OF(GLOBS) : ONE_OF(PATHS);
    if (field == 2)
        return ONE_OF(WILD);
    if (field == 3)
        return ONE_OF(NETWORKS);
    return below(6) == 0 ? "*" : request_value(field);
}

static bool plain_glob(const char *g, const char *p)
{
    if (g[0] == '*' && g[1] == '*')
        return plain_glob(g + 1, p) || plain_glob(g + 2, p) || (*p && plain_glob(g, p + 1));
    if (g[0] == '*')
        return plain_glob(g + 1, p) || (*p && *p != '/' && plain_glob(g, p + 1));
    if (!g[0] || !p[0])
        return !g[0] && !p[0];
    return (g[0] == p[0] || (g[0] == '?' && p[0] != '/')) && plain_glob(g + 1, p + 1);
}

static bool plain_fits(int field, enum rules_test test, const char *value, const char *has)
{
    if (strcmp(value, "*") == 0)
        return true;
    if (field == 3) {
        struct address a;
        struct network n;

        (void)address_read(slice(has), &a);
        (void)network_read(slice(value), &n);
        return network_has(&n, &a);
    }
    if (field == 2 && value[0] == '*') {
        const size_t suffix = strlen(value + 1), len = strlen(has);

        return len > suffix && strcmp(has + len - suffix, value + 1) == 0;
    }
    if (test == RULES_PREFIX)
        return strncmp(has, value, strlen(value)) == 0;
    return test == RULES_GLOB ? plain_glob(value, has) : strcmp(value, has) == 0;
}

static bool plain_matches(const struct plain_rule *p, const char *const has[FIELDS])
{
    for (int f = 0; f < FIELDS; f++) {
        bool fits = !p->has[f];

        for (int v = 0; v < p->values[f] && has[f]; v++)
            fits = fits || plain_fits(f, p->test[f], p->value[f][v], has[f]);
        if (!fits)
            return false;
    }
    return true;
}

static void plain_make(struct plain_rule *p, struct rules *r, int i)
{
    struct rules_why why;
    char name[16];

    *p = (struct plain_rule){.final = below(8) == 0};
    (void)snprintf(name, sizeof name, "r%d", i);
    assert_true(rules_add(r, slice(name), p->final, &why));
    for (int f = 0; f < FIELDS; f++) {
        if (below(3) != 0)
            continue;
        p->has[f] = true;
        p->test[f] = f == 0 ? (enum rules_test)below(3) : RULES_EXACT;
        assert_true(rules_condition(r, slice(FIELD[f]), p->test[f], &why));
        p->values[f] = 1 + (int)below(3);
        for (int v = 0; v < p->values[f]; v++) {
            p->value[f][v] = rule_value(f, p->test[f]);
            assert_true(rules_value(r, slice(p->value[f][v]), &why));
        }
    }
    assert_true(rules_apply(r, slice("l"), slice("{ip}"), 1, 0, &why));
}

static void the_index_finds_what_a_plain_matcher_does(void **state)
{
    static const struct rules_weight ONE = {1, 0};
    static struct plain_rule plain[RULES_N];

    (void)state;
    for (uint64_t round = 1; round <= 400; round++) {
        struct rules *r = rules_open();
        struct rules_excess e;
        uint64_t most = 0;

        seed = round;
        for (int i = 0; i < RULES_N; i++)
            plain_make(&plain[i], r, i);
        assert_true(rules_finish(r));
        for (int k = 0; k < 60; k++) {
            const char *has[FIELDS];
            struct rules_request q;
            struct rules_matches m;
            size_t n = 0;
            bool ended = false;

            rules_request_init(&q, r, scratch, sizeof scratch, 64);
            for (int f = 0; f < FIELDS; f++) {
                has[f] = below(5) == 0 ? NULL : request_value(f);
                if (has[f])
                    assert_int_equal(rules_request_set(&q, slice(FIELD[f]), slice(has[f])),
                                     RULES_SET);
            }
            rules_match(&q, &m);
            for (uint32_t i = 0; i < RULES_N && !ended; i++) {
                if (!plain_matches(&plain[i], has))
                    continue;
                if (n < RULES_APPLIED && (n >= m.n || m.rule[n] != i))
                    fail_msg("seed %llu, request %d: rule %u is missing", (unsigned long long)round,
                             k, i);
                n++;
                ended = plain[i].final;
            }
            if (m.n != (n < RULES_APPLIED ? n : RULES_APPLIED))
                fail_msg("seed %llu, request %d: %zu rules instead of %zu",
                         (unsigned long long)round, k, m.n, n);
            most = n > most ? n : most;
        }
        /* What has come together could come together. */
        assert_true(most == 0 || rules_together(r, &ONE, most - 1, &e) == 1);
        rules_close(r);
    }
}

/* ---- Many ------------------------------------------------------------------------------------ */

static void a_hundred_thousand_rules(void **state)
{
    static const struct rules_weight ONE = {1, 0};
    struct rules *r = rules_open();
    struct rules_why why;
    struct rules_excess e;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        char value[64];

        assert_true(rules_add(r, slice(""), false, &why));
        assert_true(rules_condition(r, slice(i % 3 == 2 ? "ip" : "path"),
                                    i % 3 == 1 ? RULES_PREFIX : RULES_EXACT, &why));
        (void)snprintf(value, sizeof value, i % 3 == 2 ? "10.%d.%d.%d" : "/p/%d/%d/%d", i >> 16,
                       i >> 8 & 255, i & 255);
        assert_true(rules_value(r, slice(value), &why));
        assert_true(rules_apply(r, slice("l"), slice("{ip}"), 1, 0, &why));
    }
    assert_true(rules_finish(r));
    assert_int_equal(rules_together(r, &ONE, 16, &e), 0);
    assert_true(rules_bytes(r) < (size_t)64 << 20);
    for (int i = 0; i < 99990; i += 3) {
        struct rules_request q;
        struct rules_matches m;
        char text[128], got[512], expected[64];

        (void)snprintf(text, sizeof text, "path=/p/%d/%d/%d ip=10.%d.%d.%d", i >> 16, i >> 8 & 255,
                       i & 255, (i + 2) >> 16, (i + 2) >> 8 & 255, (i + 2) & 255);
        fill(&q, r, text);
        rules_match(&q, &m);
        names_of(r, &m, got);
        (void)snprintf(expected, sizeof expected, "#%d", i + 1);
        if (!strstr(got, expected) || m.n < 2 || m.n > 5)
            fail_msg("%s: got %s", text, got);
    }
    rules_close(r);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(paths_are_compared_in_one_form),
    cmocka_unit_test(globs_fit_segments),
    cmocka_unit_test(a_glob_of_stars_is_quick),
    cmocka_unit_test(rules_match_by_all_their_conditions),
    cmocka_unit_test(what_is_wrong_is_told),
    cmocka_unit_test(templates_are_read),
    cmocka_unit_test(keys_are_made),
    cmocka_unit_test(keys_do_not_collide),
    cmocka_unit_test(what_could_come_together),
    cmocka_unit_test(the_index_finds_what_a_plain_matcher_does),
    cmocka_unit_test(a_hundred_thousand_rules),
};

RUN("rules", TESTS)
