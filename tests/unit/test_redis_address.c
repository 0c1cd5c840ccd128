/* Stores' URLs: what they say, what is wrong with them, and which parts stay secret. */
#include "check.h"

#include <string.h>

#include "base/num.h"
#include "redis/client/address.h"

#define MS        WEIR__NS_PER_MS
#define SIXTEEN   "0123456789abcdef"
#define HUNDRED   SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN "0123"
#define TWO_FIVE6 HUNDRED HUNDRED SIXTEEN SIXTEEN SIXTEEN "01234567"

static void urls_say_where_and_how(void **state)
{
    static const struct {
        const char *what, *url;
        struct weir__address is;
    } ROWS[] = {
        {"a host alone", "redis://cache", {.host = "cache", .shown = "redis://cache:6379"}},
        {"a slash at the end", "redis://cache/", {.host = "cache", .shown = "redis://cache:6379"}},
        {"port and database",
         "redis://10.0.0.7:6380/3",
         {.host = "10.0.0.7", .port = 6380, .db = 3, .shown = "redis://10.0.0.7:6380/3"}},
        {"a password alone",
         "redis://:secret@cache",
         {.host = "cache", .password = "secret", .shown = "redis://cache:6379"}},
        {"user and password",
         "redis://app:secret@cache:1",
         {.host = "cache",
          .port = 1,
          .user = "app",
          .password = "secret",
          .shown = "redis://cache:1"}},
        {"what is coded",
         "redis://a%3ab:%2F%3f%40%25%c3%A4@cache",
         {.host = "cache",
          .user = "a:b",
          .password = "/?@%\xc3\xa4",
          .shown = "redis://cache:6379"}},
        {"an '@' and a ':' that are not coded",
         "redis://app:p@ss:word@cache",
         {.host = "cache", .user = "app", .password = "p@ss:word", .shown = "redis://cache:6379"}},
        {"IPv6",
         "redis://:x@[::1]:6380/2",
         {.host = "::1", .port = 6380, .db = 2, .password = "x", .shown = "redis://[::1]:6380/2"}},
        {"IPv6 without a port",
         "redis://[2001:db8::7]",
         {.host = "2001:db8::7", .shown = "redis://[2001:db8::7]:6379"}},
        {"IPv6 of a link",
         "redis://[fe80::1%25eth0]",
         {.host = "fe80::1%eth0", .shown = "redis://[fe80::1%eth0]:6379"}},
        {"all options",
         "redis://cache?timeout=1s500ms&connections=16&nodes=65536&prefix=a-B_9.",
         {.host = "cache",
          .timeout_ns = 1500 * MS,
          .connections = 16,
          .nodes = 65536,
          .prefix = "a-B_9.",
          .shown = "redis://cache:6379"}},
        {"a password in a file",
         "redis://cache?password-file=/run/a%20b&nodes=2",
         {.host = "cache",
          .nodes = 2,
          .password_from = WEIR__PASSWORD_FILE,
          .password_at = "/run/a b",
          .shown = "redis://cache:6379"}},
        {"a user whose password is in the environment",
         "redis://app%40x@cache?password-env=_Redis2",
         {.host = "cache",
          .user = "app@x",
          .password_from = WEIR__PASSWORD_ENV,
          .password_at = "_Redis2",
          .shown = "redis://cache:6379"}},
        {"a socket and a password in a file",
         "redis+unix:/r?password-file=/p&user=u",
         {.local = true,
          .host = "/r",
          .user = "u",
          .password_from = WEIR__PASSWORD_FILE,
          .password_at = "/p",
          .shown = "redis+unix:/r"}},
        {"options behind a database",
         "redis://cache/2147483647?timeout=1ms&nodes=1",
         {.host = "cache",
          .db = 2147483647,
          .timeout_ns = MS,
          .nodes = 1,
          .shown = "redis://cache:6379/2147483647"}},
        {"a socket",
         "redis+unix:/run/r.sock",
         {.local = true, .host = "/run/r.sock", .shown = "redis+unix:/run/r.sock"}},
        {"a socket as some write it",
         "redis+unix:///run/r.sock",
         {.local = true, .host = "/run/r.sock", .shown = "redis+unix:/run/r.sock"}},
        {"a socket and all options",
         "redis+unix:/a%3Fb%20c?db=7&user=u%26&password=%3d@/&timeout=60s&prefix=x",
         {.local = true,
          .host = "/a?b c",
          .db = 7,
          .user = "u&",
          .password = "=@/",
          .timeout_ns = 60000 * MS,
          .prefix = "x",
          .shown = "redis+unix:/a?b c?db=7"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        const struct weir__address *is = &ROWS[i].is;
        struct weir__address a;
        struct weir_diag why = {0};

        print_message("  %s\n", ROWS[i].what);
        if (weir__address_parse(&a, ROWS[i].url, &why) != 0)
            fail_msg("%s", why.text);
        assert_int_equal(a.local, is->local);
        assert_false(a.tls);
        assert_string_equal(a.host, is->host);
        assert_string_equal(a.name, is->host);
        assert_int_equal(a.port, is->port ? is->port : 6379);
        assert_int_equal(a.db, is->db);
        assert_string_equal(a.user, is->user);
        assert_string_equal(a.password, is->password);
        assert_int_equal(a.password_from, is->password_from);
        assert_string_equal(a.password_at, is->password_at);
        assert_int_equal(a.timeout_ns, is->timeout_ns ? is->timeout_ns : 50 * MS);
        assert_int_equal(a.connections, is->connections ? is->connections : 1);
        assert_int_equal(a.nodes, is->nodes);
        assert_string_equal(a.prefix, is->prefix[0] ? is->prefix : "weir");
        assert_string_equal(a.shown, is->shown);
    }
}

static void what_is_wrong_is_named_with_its_column(void **state)
{
    static const struct {
        const char *what, *url;
        int column;
        const char *says;
    } ROWS[] = {
        {"another kind", "memcached://x", 1,
         "expected redis://host, rediss://host or redis+unix:/path"},
        {"no slashes", "redis:cache", 1, "expected redis://"},
        {"nothing", "", 1, "expected redis://"},
        {"no host", "redis://", 9, "expected a host"},
        {"no host but a port", "redis://:6379", 9, "expected a host"},
        {"no host behind a password", "redis://:x@", 12, "expected a host"},
        {"a host that is none", "redis://ca$he", 9, "that is no host"},
        {"a host with a blank", "redis:// cache", 9, "that is no host"},
        {"a host too long", "redis://" TWO_FIVE6, 9, "that is no host"},
        {"a port that is none", "redis://cache:http", 15, "that is no port: expected 1 to 65535"},
        {"port 0", "redis://cache:0", 15, "'0' is no port"},
        {"a port too high", "redis://cache:65536/1", 15, "'65536' is no port"},
        {"a port left out", "redis://cache:", 15, "'' is no port"},
        {"IPv6 without brackets", "redis://::1", 9, "expected a host"},
        {"the same with a name before it", "redis://fe80::1:6379", 13,
         "an IPv6 address needs brackets"},
        {"IPv6 that is none", "redis://[::g]", 10, "'::g' is no IPv6 address"},
        {"IPv6 of an empty link", "redis://[::1%25]", 10, "is no IPv6 address"},
        {"a bracket that is not closed", "redis://[::1", 13, "expected a ']'"},
        {"a word behind a bracket", "redis://[::1]6379", 14, "'6379' stands where ':' and a port"},
        {"a database that is none", "redis://cache/zero", 15,
         "that is no database: expected 0 to 2147483647"},
        {"two paths", "redis://cache/0/1", 15, "'0/1' is no database"},
        {"a user alone", "redis://app@cache", 9,
         "expected user:password or :password before the '@'"},
        {"an empty password", "redis://:@cache", 9, "expected user:password"},
        {"a user and an empty password", "redis://app:@cache", 9, "expected user:password"},
        {"a '%' alone", "redis://:a%@cache", 11, "expected two hexadecimal digits after '%'"},
        {"a '%' with one digit", "redis://:a%4@cache", 11, "expected two hexadecimal digits"},
        {"a '%' with other letters", "redis://:a%zz@cache", 11, "expected two hexadecimal digits"},
        {"a NUL", "redis://:a%00b@cache", 11, "a NUL byte"},
        {"a user too long", "redis://" HUNDRED HUNDRED ":x@cache", 9,
         "the user may have at most 127 bytes"},
        {"a password too long", "redis://:" TWO_FIVE6 TWO_FIVE6 "@cache", 10,
         "the password may have at most 511 bytes"},
        {"an option that is none", "redis://cache?tmeout=1s", 15,
         "'tmeout' is no option: expected timeout, connections, nodes, prefix, password-file or "
         "password-env"},
        {"an option of sockets", "redis://cache?db=1", 15, "'db' is no option"},
        {"an empty option", "redis://cache?", 15, "'' is no option"},
        {"an empty option at the end", "redis://cache?nodes=1&", 23, "'' is no option"},
        {"an option without a value", "redis://cache?nodes", 15, "'nodes' needs a value"},
        {"an option twice", "redis://cache?nodes=1&nodes=2", 23, "'nodes' is given twice"},
        {"a timeout too short", "redis://cache?timeout=999us", 23,
         "'999us' is no timeout: expected a duration from 1ms to 60s"},
        {"a timeout too long", "redis://cache?timeout=61s", 23, "'61s' is no timeout"},
        {"a timeout without a unit", "redis://cache?timeout=50", 23, "'50' is no timeout"},
        {"no connections", "redis://cache?connections=0", 27,
         "'0' is no number of connections: expected 1 to 16"},
        {"too many connections", "redis://cache?connections=17", 27,
         "'17' is no number of connections"},
        {"no nodes", "redis://cache?nodes=0", 21, "'0' is no number of nodes: expected 1 to 65536"},
        {"too many nodes", "redis://cache?nodes=65537", 21, "'65537' is no number of nodes"},
        {"an empty prefix", "redis://cache?prefix=", 22, "'' is no prefix"},
        {"a prefix with a brace", "redis://cache?prefix=a{b", 22, "'a{b' is no prefix"},
        {"a prefix with a colon", "redis://cache?prefix=a:b", 22, "'a:b' is no prefix"},
        {"a prefix too long", "redis://cache?prefix=" SIXTEEN SIXTEEN "x", 22, "1 to 32 letters"},
        {"a socket without a path", "redis+unix:", 12, "expected the absolute path of a socket"},
        {"a relative path", "redis+unix:run/r", 12, "expected the absolute path"},
        {"a host where a path is", "redis+unix://host/r", 12, "expected the absolute path"},
        {"a path too long", "redis+unix:/" HUNDRED SIXTEEN, 12,
         "the path of a socket may have at most 107 bytes"},
        {"a user of a socket without a password", "redis+unix:/r?user=u", 1,
         "a user needs a password"},
        {"all options of a socket", "redis+unix:/r?x=1", 15,
         "expected timeout, connections, nodes, prefix, password-file, password-env, db, user or "
         "password"},
        {"a file beside a password", "redis://:x@cache?password-file=/p", 18,
         "'password-file' is a second password: expected one in the URL, or password-file, or "
         "password-env"},
        {"a variable beside a password", "redis://u:x@cache?nodes=1&password-env=P", 27,
         "'password-env' is a second password"},
        {"a file and a variable", "redis://cache?password-env=P&password-file=/p", 30,
         "'password-file' is a second password"},
        {"a file twice", "redis://cache?password-file=/p&password-file=/p", 32,
         "'password-file' is given twice"},
        {"a password beside a file", "redis+unix:/r?password-file=/p&password=x", 32,
         "'password' is a second password"},
        {"a relative path of a file", "redis://cache?password-file=p", 29,
         "'password-file' needs an absolute path"},
        {"no path of a file", "redis://cache?password-file=", 29, "needs an absolute path"},
        {"a path with a NUL", "redis://cache?password-file=/a%00", 31, "a NUL byte"},
        {"a path of a file too long", "redis://cache?password-file=/" TWO_FIVE6 TWO_FIVE6, 29,
         "the path of 'password-file' may have at most 511 bytes"},
        {"a variable that is none", "redis://cache?password-env=A-B", 28,
         "'password-env' needs the name of a variable"},
        {"a variable that begins with a digit", "redis://cache?password-env=1A", 28,
         "needs the name of a variable"},
        {"no variable", "redis://cache?password-env=", 28, "needs the name of a variable"},
        {"a user with a colon and a file", "redis://u:@cache?password-file=/p", 9,
         "expected user:password"},
        {"an '@' without a user", "redis://@cache?password-file=/p", 9, "expected user:password"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct weir__address a = {.port = 77};
        struct weir_diag why = {0};
        char begin[32];

        print_message("  %s\n", ROWS[i].what);
        assert_int_equal(weir__address_parse(&a, ROWS[i].url, &why), WEIR_ESTORE);
        (void)snprintf(begin, sizeof begin, "column %d: ", ROWS[i].column);
        if (why.column != ROWS[i].column || strncmp(why.text, begin, strlen(begin)) != 0 ||
            !strstr(why.text, ROWS[i].says))
            fail_msg("column %d: '%s'", why.column, why.text);
        assert_int_equal(a.port, 77); /* untouched */
        assert_int_equal(weir__address_parse(&a, ROWS[i].url, NULL), WEIR_ESTORE);
    }
}

/* However it is misspelt. */
static void no_message_contains_a_password(void **state)
{
    static const char *const URLS[] = {
        "redis://:hunter2@ca$he",
        "redis://app:hunter2@cache:port",
        "redis://app:hunter2@cache/x?",
        "redis://:hunter2/x@cache",
        "redis://:/hunter2@cache",
        "redis://:?hunter2@cache",
        "redis://:x?nodes=hunter2@cache",
        "redis://hunter2@cache",
        "redis://:x@y/hunter2@cache",
        "redis://a:b%hunter2@cache",
        "redis://:hunter2%@cache",
        "redis:hunter2@cache",
        "hunter2@cache",
        "redis+unix:/r?password=hunter2&x=1",
        "redis+unix:/r?password=x&hunter2",
        "redis+unix:/r?password=x&hunter2=5",
        "redis+unix:/r?password=x&timeout=hunter2",
        "redis+unix:/r?password=hunter2%",
        "redis+unix:/r?password=a&password=hunter2",
        "redis://cache?password=hunter2",
        "redis://cache?passwd=hunter2",
        "rediss://:hunter2@ca$he",
        "redis://cache?PASSWORD=hunter2",
        "redis://cache?pass=hunter2&nodes=1",
        "redis://cache?hunter2",
        "redis://cache?password:hunter2",
        "redis://cache?pass word=hunter2",
        "redis://cache:hunter2",
        "redis://:hunter2",
        "redis://u:hunter2 cache:1",
        "redis://hunter2$",
        "redis://cache/hunter2",
        "redis://[::1]hunter2",
        "redis+unix:/r?pass=hunter2",
        "redis://cache?password-file=hunter2",
        "redis://cache?password-env=hunter2!",
        "redis://cache?password-fil=hunter2",
        "redis://:hunter2@cache?password-file=/p",
        "redis://hunter2@cache?password-file=p",
        "redis+unix:/r?password=hunter2&password-env=P",
        "redis+unix:/r?password-env=P&password=hunter2",
    };

    (void)state;
    for (size_t i = 0; i < sizeof URLS / sizeof URLS[0]; i++) {
        struct weir__address a;
        struct weir_diag why = {0};

        assert_int_equal(weir__address_parse(&a, URLS[i], &why), WEIR_ESTORE);
        if (strstr(why.text, "hunter2"))
            fail_msg("%s: %s", URLS[i], why.text);
        assert_int_not_equal(why.column, 0);
    }
}

/* Any bytes at all: an answer, and none of it beyond its place. */
static void any_bytes_are_borne(void **state)
{
    static const char BYTES[] = "redis+unix:/@?&=%0aF[]:.~#\x01\xff";
    uint64_t random_state = 88172645463325252u;

    (void)state;
    for (int i = 0; i < 300000; i++) {
        static const char *const BEGIN[] = {"redis://", "redis+unix:/", "redis://h?", "",
                                            "redis://["};
        char url[64];
        struct weir__address a;
        struct weir_diag why = {0};
        size_t len = (size_t)snprintf(url, sizeof url, "%s", BEGIN[i % 5]);

        for (int left = i % 23; left > 0; left--) {
            random_state ^= random_state << 13;
            random_state ^= random_state >> 7;
            random_state ^= random_state << 17;
            url[len++] = BYTES[random_state % (sizeof BYTES - 1)];
        }
        url[len] = '\0';
        if (weir__address_parse(&a, url, &why) == 0) {
            assert_true(a.host[0] != '\0' && memchr(a.shown, '\0', sizeof a.shown));
            continue;
        }
        assert_true(why.column >= 1 && why.column <= (int)len + 1);
        assert_non_null(memchr(why.text, '\0', sizeof why.text));
    }
}

/* Debian 12's hiredis has none. */
static void tls_works_or_an_error_says_why_not(void **state)
{
    struct weir__address a;
    struct weir_diag why = {0};

    (void)state;
    if (weir__address_parse(&a, "rediss://:x@cache:6380", &why) == 0) {
        assert_true(a.tls);
        assert_string_equal(a.shown, "rediss://cache:6380");
        return;
    }
    assert_non_null(strstr(why.text, "hiredis that has no TLS"));
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(urls_say_where_and_how),
    cmocka_unit_test(what_is_wrong_is_named_with_its_column),
    cmocka_unit_test(no_message_contains_a_password),
    cmocka_unit_test(any_bytes_are_borne),
    cmocka_unit_test(tls_works_or_an_error_says_why_not),
};

RUN("remote address", TESTS)
