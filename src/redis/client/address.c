/* The parser of store URLs, which reads from left to right.
 *
 * Each part is checked where it stands, so an error can name it, its column and what was expected.
 * But a URL contains a password, and messages end up in logs. A password that was not encoded (with
 * '/', '?' or '@' in it) looks like other parts of the URL, so it is not enough to hide the part
 * that was read as the password:
 *
 *   (1) No byte before the last '@' of a redis:// URL is ever quoted, and none after an unknown
 *       option.
 *   (2) Where an '@' may have been forgotten (host, port, database) only numbers are quoted.
 */
#include "redis/client/address.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/un.h>

#include "base/digits.h"
#include "base/num.h"
#include "base/text.h"

#define PATH_MOST    (sizeof((struct sockaddr_un){0}.sun_path) - 1)
#define NAME_CHARS   "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
#define ENV_CHARS    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
#define OPTION_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"

static const char NO_PASSWORD[] =
    "expected user:password or :password before the '@', or an option "
    "password-file or password-env";

/* From DB on only for a Unix socket: other URLs have these elsewhere. */
enum address_option {
    TIMEOUT,
    CONNECTIONS,
    NODES,
    PREFIX,
    PASSWORD_FILE,
    PASSWORD_ENV,
    DB,
    USER,
    PASSWORD,
    OPTIONS
};

static const char *const OPTION_NAMES[] = {[TIMEOUT] = "timeout",
                                           [CONNECTIONS] = "connections",
                                           [NODES] = "nodes",
                                           [PREFIX] = "prefix",
                                           [PASSWORD_FILE] = "password-file",
                                           [PASSWORD_ENV] = "password-env",
                                           [DB] = "db",
                                           [USER] = "user",
                                           [PASSWORD] = "password"};

struct address_reader {
    struct weir__address *a;
    const char *url;
    const char *secret; /* nothing is quoted from here on: invariant (1) */
    struct weir_diag *why;
    struct weir__out out; /* the message */
    unsigned seen;        /* the options read so far, one bit each */
    const char *user;     /* a user without a password is there; NULL: there is none */
};

/* ---- Errors ---------------------------------------------------------------------------------- */

static struct weir__out *address_complain(struct address_reader *r, const char *at)
{
    r->why->column = (int)(at - r->url) + 1;
    r->out = (struct weir__out){r->why->text, sizeof r->why->text, 0};
    weir__out_text(&r->out, "column ");
    weir__out_int(&r->out, r->why->column);
    weir__out_text(&r->out, ": ");
    return &r->out;
}

static bool wrong(struct address_reader *r, const char *at, const char *text)
{
    weir__out_text(address_complain(r, at), text);
    return false;
}

/* Writes 'WORD' TEXT; or "that TEXT", if the word may be secret. Not for what stands before an
 * '@'. */
static struct weir__out *wrong_word(struct address_reader *r, struct weir__slice word,
                                    const char *text)
{
    struct weir__out *o = address_complain(r, word.at);

    if (word.at + word.len <= r->secret)
        weir__out_quoted(o, word);
    else
        weir__out_text(o, "that");
    weir__out_text(o, text);
    return o;
}

/* ---- Words ----------------------------------------------------------------------------------- */

static struct weir__slice between(const char *from, const char *to)
{
    return (struct weir__slice){from, (size_t)(to - from)};
}

static bool consists_of(struct weir__slice word, const char *chars)
{
    for (size_t i = 0; i < word.len; i++)
        if (word.at[i] == '\0' || !strchr(chars, word.at[i]))
            return false;
    return true;
}

/* As wrong_word, for a word that may be a misplaced password: quotes digits only. */
static struct weir__out *wrong_place(struct address_reader *r, struct weir__slice word,
                                     const char *text)
{
    if (!consists_of(word, "0123456789/"))
        r->secret = word.at;
    return wrong_word(r, word, text);
}

/* A number in low..high; the error says it is no `what`. */
static bool address_read_number(struct address_reader *r, struct weir__slice word, const char *what,
                                int64_t low, int64_t high, int64_t *value)
{
    struct weir__out *o;

    if (weir__parse_int(word, value) == WEIR__NUMBER_OK && *value >= low && *value <= high)
        return true;
    o = wrong_place(r, word, " is no ");
    weir__out_text(o, what);
    weir__out_text(o, ": expected ");
    weir__out_int(o, low);
    weir__out_text(o, " to ");
    weir__out_int(o, high);
    return false;
}

/* Decodes %XX. Its errors quote nothing: the word may be secret. */
static bool percent_decode(struct address_reader *r, struct weir__slice word, const char *what,
                           char *out, size_t cap)
{
    size_t len = 0;

    for (size_t i = 0; i < word.len; i++) {
        const bool coded = word.at[i] == '%';
        const int high = coded && i + 2 < word.len ? weir__hex_of(word.at[i + 1]) : -1;
        const int low = high >= 0 ? weir__hex_of(word.at[i + 2]) : -1;
        const char c = coded ? (char)(high * 16 + low) : word.at[i];

        if (coded && low < 0)
            return wrong(r, word.at + i,
                         "expected two hexadecimal digits after '%' (a '%' itself is %25)");
        if (c == '\0')
            return wrong(r, word.at + i, "a NUL byte is not allowed here");
        if (len + 1 >= cap) {
            struct weir__out *o = address_complain(r, word.at);

            weir__out_text(o, what);
            weir__out_text(o, " may have at most ");
            weir__out_int(o, (int64_t)cap - 1);
            weir__out_text(o, " bytes");
            return false;
        }
        out[len++] = c;
        i += coded ? 2 : 0;
    }
    out[len] = '\0';
    return true;
}

/* ---- Options --------------------------------------------------------------------------------- */

static bool address_unknown_option(struct address_reader *r, struct weir__slice name, int known)
{
    const bool named =
        name.len == 0 || (name.at[name.len] == '=' && consists_of(name, OPTION_CHARS));
    struct weir__out *o;

    if (!named)
        r->secret = name.at; /* the name is not quoted either */
    o = wrong_word(r, name, " is no option: expected ");
    for (int i = 0; i < known; i++) {
        weir__out_text(o, i == 0 ? "" : i + 1 < known ? ", " : " or ");
        weir__out_text(o, OPTION_NAMES[i]);
    }
    return false;
}

static bool address_read_timeout(struct address_reader *r, struct weir__slice value)
{
    int64_t ns;

    if (weir__parse_duration(value, &ns) != WEIR__NUMBER_OK || ns < WEIR__NS_PER_MS ||
        ns > 60 * WEIR__NS_PER_S) {
        wrong_word(r, value, " is no timeout: expected a duration from 1ms to 60s, such as 50ms");
        return false;
    }
    r->a->timeout_ns = ns;
    return true;
}

static bool read_prefix(struct address_reader *r, struct weir__slice value)
{
    if (value.len == 0 || value.len >= sizeof r->a->prefix || !consists_of(value, NAME_CHARS)) {
        wrong_word(r, value, " is no prefix: expected 1 to 32 letters, digits, '-', '_' or '.'");
        return false;
    }
    memcpy(r->a->prefix, value.at, value.len);
    r->a->prefix[value.len] = '\0';
    return true;
}

/* No error quotes the value: it may be the password itself, put there by mistake. */
static bool read_password_file(struct address_reader *r, struct weir__slice path)
{
    if (path.len < 2 || path.at[0] != '/')
        return wrong(r, path.at,
                     "'password-file' needs an absolute path, such as /run/secrets/redis");
    r->a->password_from = WEIR__PASSWORD_FILE;
    return percent_decode(r, path, "the path of 'password-file'", r->a->password_at,
                          sizeof r->a->password_at);
}

static bool read_password_env(struct address_reader *r, struct weir__slice name)
{
    if (name.len == 0 || name.len >= sizeof r->a->password_at || !consists_of(name, ENV_CHARS) ||
        strchr("0123456789", name.at[0]))
        return wrong(r, name.at,
                     "'password-env' needs the name of a variable, such as REDIS_PASSWORD");
    r->a->password_from = WEIR__PASSWORD_ENV;
    memcpy(r->a->password_at, name.at, name.len);
    r->a->password_at[name.len] = '\0';
    return true;
}

static bool read_value(struct address_reader *r, enum address_option option,
                       struct weir__slice value)
{
    struct weir__address *a = r->a;
    int64_t n = 0;

    switch (option) {
    case TIMEOUT: return address_read_timeout(r, value);
    case PREFIX: return read_prefix(r, value);
    case NODES: return address_read_number(r, value, "number of nodes", 1, 65536, &a->nodes);
    case PASSWORD_FILE: return read_password_file(r, value);
    case PASSWORD_ENV: return read_password_env(r, value);
    case USER: return percent_decode(r, value, "the user", a->user, sizeof a->user);
    case PASSWORD: return percent_decode(r, value, "the password", a->password, sizeof a->password);
    case CONNECTIONS:
        if (!address_read_number(r, value, "number of connections", 1, 16, &n))
            return false;
        a->connections = (int)n;
        return true;
    case DB:
        if (!address_read_number(r, value, "database", 0, INT32_MAX, &n))
            return false;
        a->db = (int)n;
        return true;
    case OPTIONS: break;
    }
    return false;
}

static bool has_password(const struct weir__address *a)
{
    return a->password[0] != '\0' || a->password_from != WEIR__PASSWORD_URL;
}

static bool names_password(int option)
{
    return option == PASSWORD || option == PASSWORD_FILE || option == PASSWORD_ENV;
}

static bool address_read_option(struct address_reader *r, struct weir__slice word)
{
    const int known = r->a->local ? OPTIONS : DB;
    struct weir__slice value = word;
    const struct weir__slice name = weir__slice_cut(&value, '=');
    int i = 0;

    if (weir__slice_is(name, OPTION_NAMES[PASSWORD]) && value.len > 0)
        r->secret = value.at;
    while (i < known && !weir__slice_is(name, OPTION_NAMES[i]))
        i++;
    if (i == known)
        return address_unknown_option(r, name, known);
    if (r->seen & 1u << i) {
        wrong_word(r, name, " is given twice");
        return false;
    }
    r->seen |= 1u << i;
    if (names_password(i) && has_password(r->a)) {
        wrong_word(r, name,
                   " is a second password: expected one in the URL, or password-file, or "
                   "password-env");
        return false;
    }
    if (value.len == 0) {
        wrong_word(r, name, " needs a value after '='");
        return false;
    }
    return read_value(r, (enum address_option)i, (struct weir__slice){value.at + 1, value.len - 1});
}

/* From the '?' on; or nothing. */
static bool address_read_options(struct address_reader *r, struct weir__slice rest)
{
    while (rest.len > 0) {
        rest = (struct weir__slice){rest.at + 1, rest.len - 1}; /* the '?', or a '&' */
        if (!address_read_option(r, weir__slice_cut(&rest, '&')))
            return false;
    }
    return true;
}

/* ---- Host and database ----------------------------------------------------------------------- */

/* USER:PASSWORD; or USER alone, if an option says where the password is. */
static bool read_user(struct address_reader *r, struct weir__slice who)
{
    struct weir__address *a = r->a;
    struct weir__slice password = who;
    const struct weir__slice user = weir__slice_cut(&password, ':');

    if (password.len == 0 && user.len > 0) {
        r->user = who.at;
        return percent_decode(r, user, "the user", a->user, sizeof a->user);
    }
    if (password.len <= 1)
        return wrong(r, who.at, NO_PASSWORD);
    return percent_decode(r, user, "the user", a->user, sizeof a->user) &&
           percent_decode(r, between(password.at + 1, who.at + who.len), "the password",
                          a->password, sizeof a->password);
}

/* After the '['. In fe80::1%25eth0 the part before the '%' is the address. */
static bool read_v6(struct address_reader *r, struct weir__slice word)
{
    char *host = r->a->host, *zone;
    struct in6_addr address;
    bool good;

    if (!percent_decode(r, word, "the host", host, sizeof r->a->host))
        return false;
    zone = strchr(host, '%');
    if (zone)
        *zone = '\0';
    good = inet_pton(AF_INET6, host, &address) == 1 &&
           (!zone || (zone[1] != '\0' && consists_of(weir__slice_of(zone + 1), NAME_CHARS)));
    if (zone)
        *zone = '%';
    if (!good)
        wrong_word(r, word, " is no IPv6 address");
    return good;
}

static bool read_name(struct address_reader *r, struct weir__slice word)
{
    if (word.len == 0)
        return wrong(r, word.at, "expected a host");
    if (word.len >= sizeof r->a->host || !consists_of(word, NAME_CHARS)) {
        wrong_place(r, word, " is no host: expected a name or an address");
        return false;
    }
    memcpy(r->a->host, word.at, word.len);
    r->a->host[word.len] = '\0';
    return true;
}

/* :PORT, or nothing. */
static bool read_port(struct address_reader *r, struct weir__slice rest)
{
    int64_t port;

    if (rest.len == 0)
        return true;
    if (rest.at[0] != ':') {
        wrong_place(r, rest, " stands where ':' and a port were expected");
        return false;
    }
    if (memchr(rest.at + 1, ':', rest.len - 1))
        return wrong(r, rest.at, "there is a second ':' (an IPv6 address needs brackets: [::1])");
    if (!address_read_number(r, between(rest.at + 1, rest.at + rest.len), "port", 1, 65535, &port))
        return false;
    r->a->port = (int)port;
    return true;
}

/* HOST[:PORT] */
static bool address_read_host(struct address_reader *r, struct weir__slice where)
{
    const char *end = where.at + where.len;
    const char *close;

    if (where.len == 0 || where.at[0] != '[') {
        const struct weir__slice name = weir__slice_cut(&where, ':');

        return read_name(r, name) && read_port(r, where);
    }
    close = memchr(where.at, ']', where.len);
    if (!close)
        return wrong(r, end, "expected a ']' that closes the '['");
    return read_v6(r, between(where.at + 1, close)) && read_port(r, between(close + 1, end));
}

/* /DB, or nothing; many URLs end in a lone '/'. */
static bool read_db(struct address_reader *r, struct weir__slice word)
{
    return word.len <= 1 || read_value(r, DB, (struct weir__slice){word.at + 1, word.len - 1});
}

/* After the "://". */
static bool read_remote(struct address_reader *r, struct weir__slice rest)
{
    const char *const at = memrchr(rest.at, '@', rest.len);
    const char *const end = rest.at + strcspn(rest.at, "/?");
    struct weir__slice where = between(rest.at, end), path = between(end, rest.at + rest.len);

    if (at && at >= end)
        return wrong(r, rest.at,
                     "an '@' follows a '/' or '?': in a password, write these as %2F and %3F");
    if (at && !read_user(r, between(rest.at, at)))
        return false;
    if (at)
        where = between(at + 1, end);
    rest = path;
    path = weir__slice_cut(&rest, '?');
    if (!address_read_host(r, where) || !read_db(r, path) || !address_read_options(r, rest))
        return false;
    return !r->user || has_password(r->a) || wrong(r, r->user, NO_PASSWORD);
}

/* After the "redis+unix:". */
static bool read_local(struct address_reader *r, struct weir__slice rest)
{
    char path[PATH_MOST + 1];
    struct weir__slice word;

    if (rest.len > 2 && memcmp(rest.at, "///", 3) == 0) /* an empty host, as in file:///path */
        rest = between(rest.at + 2, rest.at + rest.len);
    word = weir__slice_cut(&rest, '?');
    if (word.len < 2 || word.at[0] != '/' || word.at[1] == '/')
        return wrong(r, word.at,
                     "expected the absolute path of a socket, such as redis+unix:/run/redis.sock");
    if (!percent_decode(r, word, "the path of a socket", path, sizeof path) ||
        !address_read_options(r, rest))
        return false;
    memcpy(r->a->host, path, sizeof path);
    if (r->a->user[0] && !has_password(r->a))
        return wrong(r, r->url,
                     "a user needs a password: expected password=, password-file= or "
                     "password-env= too");
    return true;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static bool skip_prefix(struct weir__slice *s, const char *with)
{
    const size_t len = strlen(with);

    if (s->len < len || memcmp(s->at, with, len) != 0)
        return false;
    *s = between(s->at + len, s->at + s->len);
    return true;
}

static bool read_url(struct address_reader *r)
{
    struct weir__slice rest = weir__slice_of(r->url);

    if (skip_prefix(&rest, "redis+unix:")) {
        r->a->local = true;
        return read_local(r, rest);
    }
    if (skip_prefix(&rest, "redis://"))
        return read_remote(r, rest);
    if (!skip_prefix(&rest, "rediss://"))
        return wrong(r, r->url, "expected redis://host, rediss://host or redis+unix:/path");
    if (!WEIR__HAS_TLS)
        return wrong(r, r->url,
                     "this weir was built with a hiredis that has no TLS: rediss:// needs 1.0 or "
                     "later, with hiredis_ssl");
    r->a->tls = true;
    return read_remote(r, rest);
}

/* The URL for messages: the place, without the user and the password. */
static void address_print(struct weir__address *a)
{
    struct weir__out o = {a->shown, sizeof a->shown, 0};
    const bool v6 = strchr(a->host, ':') && !a->local;

    weir__out_text(&o, a->local ? "redis+unix:" : a->tls ? "rediss://" : "redis://");
    weir__out_text(&o, v6 ? "[" : "");
    weir__out_text(&o, a->host);
    weir__out_text(&o, v6 ? "]" : "");
    if (!a->local) {
        weir__out_text(&o, ":");
        weir__out_int(&o, a->port);
    }
    if (a->db > 0) {
        weir__out_text(&o, a->local ? "?db=" : "/");
        weir__out_int(&o, a->db);
    }
    weir__out_end(&o);
}

int weir__address_parse(struct weir__address *a, const char *url, struct weir_diag *why)
{
    struct weir_diag unheard;
    struct weir__address read = {
        .port = 6379, .timeout_ns = WEIR__REDIS_TIMEOUT_NS, .connections = 1, .prefix = "weir"};
    struct address_reader r = {
        .a = &read, .url = url, .secret = url + strlen(url), .why = why ? why : &unheard};

    if (!read_url(&r)) {
        weir__out_end(&r.out);
        return WEIR_ESTORE;
    }
    memcpy(read.name, read.host, sizeof read.name);
    address_print(&read);
    *a = read;
    return 0;
}
