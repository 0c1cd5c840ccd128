/* Reading the token file, and finding a token. See tokens.h. */
#include "server/access/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digits.h"

#define MISTAKES_TOLD 20
#define LINE_TOLD     1024 /* bytes of a message, with the path */

struct token_table {
    _Atomic unsigned more_owners;
    size_t n, bytes, slots; /* slots: a power of two, at least twice n */
    char *text;             /* the file without its tokens; names and prefixes borrow from it */
    size_t len;
    uint32_t *slot; /* 1 + the index of a token, by its digest; 0: free */
    struct token token[];
};

struct token_reading {
    const char *path;
    tokens_tell *tell;
    void *arg;
    const char *line; /* the line that is read, and its number */
    int number;
    unsigned mistakes;
    bool has_plain;
    struct token_table *table;
};

/* ---- Scopes ---------------------------------------------------------------------------------- */

static const struct {
    const char *word;
    unsigned scopes;
} SCOPES[] = {{"take", ACCESS_TAKE},
              {"admin", ACCESS_ADMIN},
              {"metrics", ACCESS_METRICS},
              {"all", ACCESS_ALL}};

const char *access_scopes_text(unsigned scopes, char text[ACCESS_SCOPES_TEXT])
{
    struct weir__out o = {text, ACCESS_SCOPES_TEXT, 0};

    for (size_t i = 0; i < 3; i++)
        if (scopes & SCOPES[i].scopes) {
            weir__out_text(&o, o.len > 0 ? "," : "");
            weir__out_text(&o, SCOPES[i].word);
        }
    (void)weir__out_end(&o);
    return text;
}

/* ---- Mistakes -------------------------------------------------------------------------------- */

static void tokens_blame(struct token_reading *r, const char *at, const char *text)
{
    char line[LINE_TOLD];

    if (r->mistakes++ >= MISTAKES_TOLD)
        return;
    if (at)
        (void)snprintf(line, sizeof line, "%s:%d:%d: %s", r->path, r->number,
                       (int)(at - r->line) + 1, text);
    else
        (void)snprintf(line, sizeof line, "%s: %s", r->path, text);
    r->tell(r->arg, line);
}

static bool tokens_refuse(struct token_reading *r, const char *at, const char *text)
{
    tokens_blame(r, at, text);
    return false;
}

/* ---- The words of a line --------------------------------------------------------------------- */

static bool token_is_printable(struct weir__slice word)
{
    for (size_t i = 0; i < word.len; i++)
        if (word.at[i] < '!' || word.at[i] > '~')
            return false;
    return true;
}

static bool token_read_name(struct token_reading *r, struct weir__slice word, struct token *t)
{
    t->name = word;
    if (word.len <= TOKEN_NAME_MOST && token_is_printable(word))
        return true;
    return tokens_refuse(r, word.at, "the name: expected 1 to 63 printable ASCII characters");
}

static bool token_read_hash(struct token_reading *r, struct weir__slice hex, struct token *t)
{
    bool good = hex.len == 2 * WEIR__SHA256_BYTES;

    for (size_t i = 0; i < WEIR__SHA256_BYTES && good; i++) {
        const int high = weir__hex_of(hex.at[2 * i]), low = weir__hex_of(hex.at[2 * i + 1]);

        good = high >= 0 && low >= 0;
        t->digest[i] = (unsigned char)(16 * high + low);
    }
    return good || tokens_refuse(r, hex.at,
                                 "the hash: expected 64 hexadecimal digits, as "
                                 "sha256sum prints them");
}

static bool token_read_secret(struct token_reading *r, struct weir__slice word, struct token *t)
{
    static const char HASH[] = "sha256:";

    if (weir__slice_is(word, "certificate")) {
        t->by_certificate = true;
        return true;
    }
    if (word.len >= sizeof HASH - 1 && memcmp(word.at, HASH, sizeof HASH - 1) == 0)
        return token_read_hash(
            r, (struct weir__slice){word.at + sizeof HASH - 1, word.len - (sizeof HASH - 1)}, t);
    if (word.len < TOKEN_LEAST || word.len > TOKEN_MOST || !token_is_printable(word))
        return tokens_refuse(r, word.at,
                             "the token: expected 16 to 256 printable ASCII characters (openssl "
                             "rand -hex 32 makes some), sha256: and its hash, or the word "
                             "certificate");
    weir__sha256(word.at, word.len, t->digest);
    memset(r->table->text + (word.at - r->table->text), '*', word.len);
    r->has_plain = true;
    return true;
}

static bool token_read_scope(struct weir__slice word, unsigned *scopes)
{
    for (size_t i = 0; i < sizeof SCOPES / sizeof SCOPES[0]; i++)
        if (weir__slice_is(word, SCOPES[i].word)) {
            *scopes |= SCOPES[i].scopes;
            return true;
        }
    return false;
}

static bool token_read_scopes(struct token_reading *r, struct weir__slice rest, struct token *t)
{
    for (;;) {
        const struct weir__slice word = weir__slice_cut(&rest, ',');

        if (!token_read_scope(word, &t->scopes))
            return tokens_refuse(r, word.at,
                                 "the scopes: expected take, admin, metrics or all, with commas "
                                 "between them");
        if (rest.len == 0)
            return true;
        rest = (struct weir__slice){rest.at + 1, rest.len - 1};
    }
}

static bool token_read_prefix(struct token_reading *r, struct weir__slice word, struct token *t)
{
    t->prefix = word;
    return word.len <= TOKEN_PREFIX_MOST ||
           tokens_refuse(r, word.at, "the key prefix: expected at most 256 bytes");
}

typedef bool word_reader(struct token_reading *r, struct weir__slice word, struct token *t);

static bool token_read_words(struct token_reading *r, struct weir__slice rest, struct token *t)
{
    static word_reader *const WORDS[] = {token_read_name, token_read_secret, token_read_scopes,
                                         token_read_prefix};
    size_t n = 0;

    for (;; n++) {
        const struct weir__slice word = weir__slice_word(&rest);

        if (word.len == 0)
            break;
        if (n == sizeof WORDS / sizeof WORDS[0])
            return tokens_refuse(r, word.at,
                                 "unexpected word behind the key prefix; a comment has a line of "
                                 "its own");
        if (!WORDS[n](r, word, t))
            return false;
    }
    return n >= 3 || tokens_refuse(r, rest.at,
                                   "the line ends too early: expected a name, a token or its "
                                   "hash, scopes, and perhaps a key prefix");
}

/* ---- The table ------------------------------------------------------------------------------- */

static size_t tokens_slot(const struct token_table *t, const unsigned char *digest)
{
    uint64_t word;

    memcpy(&word, digest, sizeof word);
    return (size_t)word & (t->slots - 1);
}

const struct token *tokens_find(const struct token_table *t,
                                const unsigned char digest[WEIR__SHA256_BYTES])
{
    for (size_t i = tokens_slot(t, digest); t->slot[i] != 0; i = (i + 1) & (t->slots - 1)) {
        const struct token *one = &t->token[t->slot[i] - 1];

        if (!one->by_certificate && weir__sha256_equal(one->digest, digest))
            return one;
    }
    return NULL;
}

/* Lines for certificates are in the same slots, by the hash of their name. */
static const struct token *find_certificate(const struct token_table *t,
                                            const unsigned char digest[WEIR__SHA256_BYTES])
{
    for (size_t i = tokens_slot(t, digest); t->slot[i] != 0; i = (i + 1) & (t->slots - 1)) {
        const struct token *one = &t->token[t->slot[i] - 1];

        if (one->by_certificate && weir__sha256_equal(one->digest, digest))
            return one;
    }
    return NULL;
}

const struct token *tokens_find_certificate(const struct token_table *t, struct weir__slice name)
{
    unsigned char digest[WEIR__SHA256_BYTES];

    weir__sha256(name.at, name.len, digest);
    return find_certificate(t, digest);
}

const struct token *tokens_find_same(const struct token_table *t, const struct token *token)
{
    return token->by_certificate ? find_certificate(t, token->digest)
                                 : tokens_find(t, token->digest);
}

static bool tokens_add(struct token_reading *r, const struct token *one)
{
    struct token_table *t = r->table;
    size_t i = tokens_slot(t, one->digest);

    if (tokens_find_same(t, one))
        return tokens_refuse(r, one->name.at,
                             one->by_certificate ? "certificates of that name are on a line before"
                                                 : "the same token is on a line before");
    while (t->slot[i] != 0)
        i = (i + 1) & (t->slots - 1);
    t->token[t->n] = *one;
    t->slot[i] = (uint32_t)++t->n;
    return true;
}

static void tokens_read_line(struct token_reading *r, struct weir__slice line)
{
    struct weir__slice rest = line;
    struct token one = {.scopes = 0};
    const struct weir__slice first = weir__slice_word(&rest);

    if (first.len == 0 || first.at[0] == '#' || !token_read_words(r, line, &one))
        return;
    if (one.by_certificate)
        weir__sha256(one.name.at, one.name.len, one.digest);
    if (r->table->n == TOKENS_MOST)
        tokens_blame(r, first.at, "more than 10000 tokens");
    else
        (void)tokens_add(r, &one);
}

static struct token_table *table_new(const char *text, size_t len)
{
    size_t lines = 1, slots = 4;
    struct token_table *t;

    for (size_t i = 0; i < len; i++)
        lines += text[i] == '\n';
    if (lines > TOKENS_MOST)
        lines = TOKENS_MOST;
    while (slots < 2 * lines)
        slots *= 2;
    t = calloc(1, sizeof *t + lines * sizeof t->token[0]);
    if (!t)
        return NULL;
    t->slots = slots;
    t->slot = calloc(slots, sizeof t->slot[0]);
    t->bytes = sizeof *t + lines * sizeof t->token[0] + slots * sizeof t->slot[0] + len;
    if (!t->slot) {
        free(t);
        return NULL;
    }
    return t;
}

struct token_table *tokens_share(struct token_table *t)
{
    atomic_fetch_add(&t->more_owners, 1);
    return t;
}

void tokens_free(struct token_table *t)
{
    if (!t)
        return;
    if (atomic_fetch_sub(&t->more_owners, 1) > 0)
        return;
    if (t->text)
        explicit_bzero(t->text, t->len); /* a line with a mistake may still have its token */
    free(t->text);
    free(t->slot);
    free(t);
}

size_t tokens_count(const struct token_table *t)
{
    return t->n;
}

size_t tokens_bytes(const struct token_table *t)
{
    return t->bytes;
}

/* ---- The file -------------------------------------------------------------------------------- */

/* The bytes of the file, and a NUL behind them; NULL: told why not. */
static char *tokens_read_file(struct token_reading *r, int fd, const struct stat *st, size_t *len)
{
    char *text = malloc((size_t)st->st_size + 1);
    ssize_t got = 1;

    *len = 0;
    while (text && *len < (size_t)st->st_size && got > 0) {
        got = read(fd, text + *len, (size_t)st->st_size - *len);
        *len += got > 0 ? (size_t)got : 0;
    }
    if (!text || got < 0) {
        tokens_blame(r, NULL, text ? strerror(errno) : "out of memory");
        free(text);
        return NULL;
    }
    text[*len] = '\0';
    return text;
}

static char *tokens_open_file(struct token_reading *r, struct stat *st, size_t *len)
{
    const int fd = open(r->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *text = NULL;

    if (fd < 0 || fstat(fd, st) != 0)
        tokens_blame(r, NULL, strerror(errno));
    else if (!S_ISREG(st->st_mode))
        tokens_blame(r, NULL, "expected a regular file");
    else if (st->st_size > TOKENS_FILE_BYTES)
        tokens_blame(r, NULL, "the file is larger than 4 MiB");
    else if (st->st_mode & S_IWOTH)
        tokens_blame(r, NULL, "every user may write to the file: chmod o= closes it");
    else
        text = tokens_read_file(r, fd, st, len);
    if (fd >= 0)
        (void)close(fd);
    return text;
}

/* A file with tokens as they are is not for other users; one with hashes may be. */
static void judge_mode(struct token_reading *r, const struct stat *st)
{
    char line[LINE_TOLD];

    if (!(st->st_mode & S_IROTH))
        return;
    if (r->has_plain) {
        tokens_blame(r, NULL,
                     "every user may read the file, and it has tokens that are not hashed: "
                     "chmod o= closes it");
        return;
    }
    (void)snprintf(line, sizeof line, "warning: %s: every user may read the names and scopes in it",
                   r->path);
    r->tell(r->arg, line);
}

static void tokens_read_lines(struct token_reading *r, const char *text, size_t len)
{
    struct weir__slice rest = {text, len};

    while (rest.len > 0) {
        const struct weir__slice line = weir__slice_cut(&rest, '\n');

        r->number++;
        r->line = line.at;
        if (memchr(line.at, '\0', line.len))
            tokens_blame(r, line.at, "the line has a zero byte in it");
        else
            tokens_read_line(r, line);
        if (rest.len > 0)
            rest = (struct weir__slice){rest.at + 1, rest.len - 1};
    }
}

struct token_table *tokens_read(const char *path, tokens_tell *tell, void *arg)
{
    struct token_reading r = {.path = path, .tell = tell, .arg = arg};
    struct stat st;
    size_t len = 0;
    char *text = tokens_open_file(&r, &st, &len);

    if (!text)
        return NULL;
    r.table = table_new(text, len);
    if (!r.table) {
        free(text);
        tokens_blame(&r, NULL, "out of memory");
        return NULL;
    }
    r.table->text = text;
    r.table->len = len;
    tokens_read_lines(&r, text, len);
    judge_mode(&r, &st);
    if (r.mistakes == 0 && r.table->n == 0)
        tokens_blame(&r, NULL, "there is no token in the file");
    if (r.mistakes == 0)
        return r.table;
    tokens_free(r.table);
    return NULL;
}
