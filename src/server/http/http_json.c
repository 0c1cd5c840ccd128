/* JSON bodies, read with jansson.
 *
 * A tree of small objects can take a hundred times the memory of its text, so a server that reads
 * JSON from strangers must bound the tree and not only the text. Ours lives in an arena of the
 * thread: blocks that are filled from the front, up to a bound, and released all at once. That also
 * makes reading a body cheap: an object of three members allocates nothing, and the tree is never
 * walked to free it.
 *
 * Invariants:
 *   (1) Nothing else in this process uses jansson: it allocates from the arena only.
 *   (2) Between two requests the arena is empty: it has the thread's first block, and one of the
 *       usual size, because mapping such a block anew for every request would cost as much as
 *       reading the body.
 */
#include "server/http/http_front.h"

#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES ((size_t)8 * 1024)
#define BLOCK_BYTES ((size_t)256 * 1024)
#define TREE_BYTES  ((size_t)16 * 1024 * 1024) /* 10,000 objects of a batch take half of it */
/* and the text is copied twice, into buffers that grow */
#define TEXT_TIMES 4
#define ALIGNMENT  16

#define INT_BYTES 24 /* bytes of an int64_t as text */

/* ---- The arena ------------------------------------------------------------------------------- */

struct block {
    struct block *older;
    size_t cap;
    _Alignas(ALIGNMENT) char bytes[];
};

static _Thread_local struct {
    _Alignas(ALIGNMENT) char first[FIRST_BYTES];
    struct block *newest; /* NULL: the first block is in use */
    struct block *spare;  /* of BLOCK_BYTES, or NULL */
    size_t used, cap;     /* of the newest block */
    size_t all, most;     /* of all blocks but the first */
    bool is_full;         /* jansson asked for more than the bound */
} arena;

static struct block *arena_block(size_t cap)
{
    struct block *b = arena.spare;

    if (cap != BLOCK_BYTES || !b)
        return malloc(sizeof *b + cap);
    arena.spare = NULL;
    return b;
}

static bool arena_add_block(size_t least)
{
    const size_t cap = least > BLOCK_BYTES ? least : BLOCK_BYTES;
    struct block *b = cap <= arena.most - arena.all ? arena_block(cap) : NULL;

    arena.is_full = arena.is_full || !b;
    if (!b)
        return false;
    b->cap = cap;
    b->older = arena.newest;
    arena.newest = b;
    arena.used = 0;
    arena.cap = cap;
    arena.all += cap;
    return true;
}

static void *arena_take(size_t size)
{
    const size_t need = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    char *at;

    if (need < size || (need > arena.cap - arena.used && !arena_add_block(need)))
        return NULL;
    at = (arena.newest ? arena.newest->bytes : arena.first) + arena.used;
    arena.used += need;
    return at;
}

static void arena_keep(void *memory)
{
    (void)memory; /* released with the whole arena */
}

void http_json_forget(void)
{
    while (arena.newest) {
        struct block *b = arena.newest;

        arena.newest = b->older;
        if (!arena.spare && b->cap == BLOCK_BYTES)
            arena.spare = b;
        else
            free(b);
    }
    arena.used = 0;
    arena.cap = FIRST_BYTES;
    arena.all = 0;
    arena.is_full = false;
}

void http_thread_ends(void)
{
    http_json_forget();
    free(arena.spare);
    arena.spare = NULL;
}

static void use_arena(void)
{
    json_set_alloc_funcs(arena_take, arena_keep);
}

/* ---- Bodies ---------------------------------------------------------------------------------- */

/* jansson says what is wrong; what it quotes from the body may hold any bytes. */
static bool http_json_error(struct http_why *why, const json_error_t *error)
{
    struct weir__out out = {why->text, sizeof why->text, 0};

    if (arena.is_full)
        return http_because(why, 413, "the JSON body is too large");
    why->status = 400;
    weir__out_text(&out, "the body must be a JSON object or array, or a form "
                         "(application/x-www-form-urlencoded): ");
    for (const char *at = error->text; *at; at++)
        weir__out_bytes(&out, (unsigned char)*at < 32 || (unsigned char)*at > 126 ? "?" : at, 1);
    weir__out_text(&out, ", at byte ");
    weir__out_int(&out, error->position);
    (void)weir__out_end(&out);
    return false;
}

bool http_json_read(struct weir__slice body, struct json_t **json, struct http_why *why)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    json_error_t error;

    (void)pthread_once(&once, use_arena);
    http_json_forget(); /* the thread's first request */
    arena.most = TREE_BYTES + TEXT_TIMES * body.len;
    *json = json_loadb(body.at ? body.at : "", body.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
                       &error);
    return *json || http_json_error(why, &error);
}

/* ---- Members --------------------------------------------------------------------------------- */

static struct weir__slice http_json_string(const json_t *value)
{
    return (struct weir__slice){json_string_value(value), json_string_length(value)};
}

static bool http_json_bytes(struct weir__slice *to, struct weir__slice name, const json_t *value,
                            struct http_why *why)
{
    if (!json_is_string(value))
        return http_because_of(why, 400, "", name, " must be a string");
    *to = http_json_string(value);
    return true;
}

bool http_json_key(struct weir__slice *to, struct weir__slice name, const json_t *value,
                   struct http_why *why)
{
    char *digits;

    if (json_is_string(value)) {
        *to = http_json_string(value);
        return true;
    }
    if (!json_is_integer(value))
        return http_because_of(why, 400, "", name, " must be a string or a whole number");
    digits = arena_take(INT_BYTES); /* lives as long as the JSON */
    if (!digits)
        return http_because(why, 413, "the JSON body is too large");
    *to = (struct weir__slice){digits,
                               (size_t)(http_put_int(digits, json_integer_value(value)) - digits)};
    return true;
}

static bool http_json_value(struct http_params *params, enum http_word word,
                            struct weir__slice name, const json_t *value, struct http_why *why)
{
    struct weir__slice *text = http_params_slice(params, word);

    if (word == HTTP_WORD_KEY)
        return http_json_key(text, name, value, why);
    if (text)
        return http_json_bytes(text, name, value, why);
    if (json_is_integer(value))
        return http_params_number(params, word, json_integer_value(value), why);
    if (json_is_string(value) && word != HTTP_WORD_COST)
        return http_params_text(params, word, http_json_string(value), why);
    return http_because_of(why, 400, "", name,
                           word == HTTP_WORD_COST ? " must be a whole number"
                                                  : " must be a whole number or a duration");
}

bool http_params_json(struct http_params *params, const struct json_t *object, struct http_why *why)
{
    if (!json_is_object(object))
        return http_because(why, 400, "expected a JSON object");
    for (void *i = json_object_iter((json_t *)object); i;
         i = json_object_iter_next((json_t *)object, i)) {
        const struct weir__slice name = weir__slice_of(json_object_iter_key(i));
        const enum http_word word = http_word_of(params, name);

        if (word == HTTP_WORD_COUNT)
            return http_because_of(why, 400, "unknown member: ", name, "");
        if (!http_params_note(params, word, why) ||
            !http_json_value(params, word, name, json_object_iter_value(i), why))
            return false;
    }
    return true;
}

bool http_json_each(const struct json_t *object, http_member *member, void *arg,
                    struct http_why *why)
{
    if (!json_is_object(object))
        return http_because(why, 400, "expected a JSON object");
    for (void *i = json_object_iter((json_t *)object); i;
         i = json_object_iter_next((json_t *)object, i)) {
        const struct weir__slice name = weir__slice_of(json_object_iter_key(i));
        const json_t *value = json_object_iter_value(i);
        struct weir__slice text;

        if (json_is_boolean(value))
            text = weir__slice_of(json_is_true(value) ? "true" : "false");
        else if (!http_json_key(&text, name, value, why))
            return false;
        if (!member(arg, name, text, why))
            return false;
    }
    return true;
}
