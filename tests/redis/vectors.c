/* Runs the vectors through the library on a Redis, with injected times: `remote_vectors URL
 * FILE...`. Every case has its own engine and keys.
 *
 * In Redis a live change reaches a key with the next request for it. So each key of the case is
 * peeked when the limit changes. And keys of another algorithm are deleted: other stores forget
 * them, but Redis would find them again if the first algorithm came back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../engine/backend.h"
#include "../engine/model/script_player.h"
#include "../vectors/reader.h"

#define KEYS_MOST 64

struct subject {
    struct script_player player;
    struct weir__slice key[KEYS_MOST];
    int keys;
    struct weir__slice algorithm; /* of the first term */
};

static void *open_subject(const void *arg, int64_t start_ns)
{
    struct subject *s = calloc(1, sizeof *s);

    (void)arg;
    if (!s)
        abort();
    player_init(&s->player, backend_open(NULL), "limit", 1, start_ns);
    return s;
}

static void note_key(struct subject *s, struct weir__slice key)
{
    for (int i = 0; i < s->keys; i++)
        if (weir__slice_equal(s->key[i], key))
            return;
    if (s->keys == KEYS_MOST)
        abort();
    s->key[s->keys].at = strndup(key.at, key.len);
    s->key[s->keys++].len = key.len;
}

static void touch_all(struct subject *s)
{
    for (int i = 0; i < s->keys; i++) {
        const struct sim_event look = {.verb = SIM_PEEK, .key = s->key[i], .patience_ns = 0};
        struct sim_outcome outcome;
        struct sim_error error;

        if (!player_apply(&s->player, &look, &outcome, &error))
            abort();
    }
}

static void forget_all(struct subject *s)
{
    for (int i = 0; i < s->keys; i++) {
        const struct sim_event reset = {.verb = SIM_RESET, .key = s->key[i]};
        struct sim_outcome outcome;
        struct sim_error error;

        if (!player_apply(&s->player, &reset, &outcome, &error))
            abort();
    }
}

static bool is_other(struct subject *s, struct weir__slice limit)
{
    const struct weir__slice word = weir__slice_word(&limit);
    const bool other = s->algorithm.len > 0 && !weir__slice_equal(s->algorithm, word);

    free((char *)s->algorithm.at);
    s->algorithm = (struct weir__slice){strndup(word.at, word.len), word.len};
    return other;
}

static bool apply(void *subject, const struct sim_event *event, struct sim_outcome *outcome,
                  struct sim_error *error)
{
    struct subject *s = subject;
    bool done;

    if (event->verb == SIM_LIMIT && is_other(s, event->limit))
        forget_all(s);
    done = player_apply(&s->player, event, outcome, error);

    if (done && event->verb == SIM_LIMIT)
        touch_all(s);
    else if (event->verb == SIM_TAKE || event->verb == SIM_PEEK || event->verb == SIM_CHARGE)
        note_key(s, event->key);
    return done;
}

static void close_subject(void *subject)
{
    struct subject *s = subject;

    backend_close(s->player.w);
    player_end(&s->player);
    for (int i = 0; i < s->keys; i++)
        free((char *)s->key[i].at);
    free((char *)s->algorithm.at);
    free(s);
}

int main(int argc, char **argv)
{
    static const struct vector_subject redis = {
        .open = open_subject, .apply = apply, .close = close_subject, .tick_ns = 1000};

    if (argc < 3 || !backend_choose(argv[1])) {
        (void)fprintf(stderr, "usage: remote_vectors URL FILE...\n");
        return 2;
    }
    return vectors_run("vectors on Redis", &redis, argc - 2, argv + 2);
}
