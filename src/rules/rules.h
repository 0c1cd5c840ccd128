/* Rules: which limits a request is counted under, and by which keys.
 *
 *     rules_build.c     texts to rules: conditions, values, what is applied
 *     rules_template.c  key templates, and the keys they make
 *     rules_path.c      paths as rules compare them
 *     rules_glob.c      globs, in time that is linear in the path
 *     rules_index.c     the index: a hash table and prefix trees
 *     rules_request.c   what a request says
 *     rules_match.c     the rules that apply to a request
 *     rules_together.c  what could ever apply to one request, for the reader of a file
 *
 * A rule has conditions, all of which must hold, and applies one or more named limits. All rules
 * that match apply, in their order, up to and including the first that is final. A condition is
 * about a field: path, method, host, ip, header.NAME or attr.NAME. It has one or more values, one
 * of which must fit.
 *
 * This layer knows names of limits and no limits. It allocates while rules are built, and never
 * while a request is matched. Rules that are built do not change: any number of threads may read
 * them.
 */
#ifndef WEIR_RULES_RULES_H
#define WEIR_RULES_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "proto/address.h"

#define RULES_MOST       200000 /* rules */
#define RULES_FIELDS     64     /* path, method, host, ip, and names of headers and attributes */
#define RULES_APPLIED    16     /* limits that rules apply to one request */
#define RULES_NAME_MOST  63     /* bytes of a rule's name */
#define RULES_FIELD_MOST 127    /* bytes of a field's name */
#define RULES_VALUE_MOST 4096   /* bytes of a value in a condition, ... */
#define RULES_GLOB_MOST  127    /* ... of a glob ... */
#define RULES_KEY_MOST   1024   /* ... and of a template */
#define RULES_PARTS      16     /* texts and placeholders of a template */
#define RULES_PATH_MOST  8192   /* bytes of a request's path, decoded */
#define RULES_SCRATCH    65536  /* bytes that a caller gives for a request and its keys */
#define RULES_COST_MOST  INT64_C(1000000000000)

struct rules;

/* ---- Building -------------------------------------------------------------------------------- */

/* What is wrong with a text, and at which byte of it (from 1; 0: all of it). */
struct rules_why {
    int column;
    char text[240];
};

/* How the values of a condition are compared. */
enum rules_test {
    RULES_EXACT,  /* as it is; a host may begin with *., an ip is a network, * is any value */
    RULES_PREFIX, /* of a path */
    RULES_GLOB,   /* of a path: * within a segment, ** over several, ? one byte of a segment */
};

/* NULL: out of memory. */
struct rules *rules_open(void);
void rules_close(struct rules *r);

/* Each of these is about the rule that was added last. False: *why says what is wrong; its text is
 * empty if there is no memory. An empty name: the rule is called by its number, #1 the first. */
bool rules_add(struct rules *r, struct weir__slice name, bool final, struct rules_why *why);
/* Begins a condition; its values follow. */
bool rules_condition(struct rules *r, struct weir__slice field, enum rules_test test,
                     struct rules_why *why);
bool rules_value(struct rules *r, struct weir__slice text, struct rules_why *why);
/* `tag` is the caller's own. */
bool rules_apply(struct rules *r, struct weir__slice limit, struct weir__slice key, int64_t cost,
                 uint32_t tag, struct rules_why *why);
/* The rule matches only requests that have all that its keys are made of. After its last limit. */
bool rules_skip_missing(struct rules *r, struct rules_why *why);

/* Builds the index; nothing can be added after it. False: out of memory. */
bool rules_finish(struct rules *r);

size_t rules_count(const struct rules *r);
/* Bytes that they take. */
size_t rules_bytes(const struct rules *r);

/* ---- What could come together ---------------------------------------------------------------- */

/* What a limit adds to a request, by its tag. */
struct rules_weight {
    uint32_t terms;
    uint32_t store; /* 0 to 31 */
};

struct rules_excess {
    bool stores; /* two stores; else too many terms */
    uint64_t terms;
    size_t n;
    uint32_t rule[RULES_APPLIED + 1]; /* some of them, in their order */
};

/* True if rules that could apply to one request have more than `most` terms, or limits in two
 * stores. `weight` is by tag. -1: out of memory. */
int rules_together(const struct rules *r, const struct rules_weight *weight, uint64_t most,
                   struct rules_excess *excess);

/* ---- Requests -------------------------------------------------------------------------------- */

enum { RULES_PATH, RULES_METHOD, RULES_HOST, RULES_IP, RULES_NAMED };

struct rules_request {
    const struct rules *rules;
    struct weir__slice value[RULES_FIELDS]; /* by field; empty: missing */
    struct weir__slice host;                /* as keys have it: the value is backwards */
    struct address ip;                      /* as keys have it: the value is its bits */
    int ipv6_prefix;                        /* bits that {ip} has of an IPv6 address */
    char *scratch;
    size_t used, cap;
    char bits[132]; /* the address, a byte for each bit */
};

enum rules_set {
    RULES_SET,
    RULES_TWICE,      /* the field has a value already */
    RULES_BAD_IP,     /* not an address */
    RULES_LONG_PATH,  /* more than RULES_PATH_MOST bytes */
    RULES_NO_SCRATCH, /* there is no room for it */
};

/* A request that says nothing yet; `scratch` must last as long as it, and as its keys. */
void rules_request_init(struct rules_request *q, const struct rules *r, char *scratch, size_t cap,
                        int ipv6_prefix);
/* Sets a field by name: path, method, host, ip, header.NAME, attr.NAME; any other name is that of
 * an attribute. The value is borrowed, and brought into the form that rules compare. An empty one
 * counts as missing. What no rule asks for is ignored. */
enum rules_set rules_request_set(struct rules_request *q, struct weir__slice name,
                                 struct weir__slice value);
/* The same for a header field of that name, in any case. If it comes again, its values are joined
 * by ", ". */
enum rules_set rules_request_header(struct rules_request *q, struct weir__slice name,
                                    struct weir__slice value);
enum rules_set rules_request_address(struct rules_request *q, const struct address *a);

/* A path without its query, decoded once, without dot segments and double slashes; in place. Of a
 * URL (http://host/path) its path. */
struct weir__slice rules_path_normal(char *at, size_t len);
/* The host of a URL; empty if the text is a path. */
struct weir__slice rules_url_host(struct weir__slice url);
/* Whether `*` and others in the glob fit the path. */
bool rules_glob_fits(struct weir__slice glob, struct weir__slice path);

/* ---- Matching -------------------------------------------------------------------------------- */

/* The rules that apply, in their order. */
struct rules_matches {
    size_t n;
    uint32_t rule[RULES_APPLIED];
};

void rules_match(const struct rules_request *q, struct rules_matches *m);

/* What a rule applies. */
size_t rules_applies(const struct rules *r, uint32_t rule);
struct rules_applied {
    struct weir__slice limit;
    int64_t cost;
    uint32_t tag;
};
struct rules_applied rules_applied(const struct rules *r, uint32_t rule, size_t i);
/* The key of the i-th. It borrows from the request, or is in its scratch. False: there is no room
 * for it. */
bool rules_key(struct rules_request *q, uint32_t rule, size_t i, struct weir__slice *key);

/* The name, or #NUMBER in `text`. */
#define RULES_NAME_ROOM (RULES_NAME_MOST + 1)
struct weir__slice rules_name(const struct rules *r, uint32_t rule, char text[RULES_NAME_ROOM]);
bool rules_is_final(const struct rules *r, uint32_t rule);

/* ---- Explaining ------------------------------------------------------------------------------ */

/* Why a rule does not match: the first condition that does not hold. NULL: it matches. The text is
 * in `why`. */
#define RULES_WHY_ROOM 400
const char *rules_why_not(const struct rules_request *q, uint32_t rule, char why[RULES_WHY_ROOM]);
/* The template of a key as it was written, and its parts as this request fills them:
 * "acme" + ":" + "/x". */
struct weir__slice rules_template(const struct rules *r, uint32_t rule, size_t i);
void rules_key_shown(const struct rules_request *q, uint32_t rule, size_t i, struct weir__out *o);

#endif
