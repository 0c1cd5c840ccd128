/* Random scripts, and what must come of them. */
#ifndef WEIR_TESTS_ENGINE_MODEL_MODEL_H
#define WEIR_TESTS_ENGINE_MODEL_MODEL_H

#include "../../prop/prop.h"
#include "reference.h"
#include "script_player.h"

#define MODEL_POLICIES 3
#define MODEL_BATCH    16
#define MODEL_STEPS    80
#define MODEL_TEXT     (PROP_TEXT * (PLAYER_PARTS + 1))
#define MODEL_LINES    (1 << 16)

/* ---- Chance (draw.c) ----------------------------------------------------------------------- */

/* Seeds from here on make limits with block= and warn=. */
#define MODEL_BOXES UINT64_C(3000000000000)
extern bool draw_boxes;

/* A limit of n terms that the door lets in, as text and as numbers. */
void draw_limit(struct prop_rng *r, int n, char text[MODEL_TEXT], struct weir_limit *limit);
/* One to follow it: most of it the same, with some number changed; now and then another altogether.
 * The number of terms stays. */
void draw_change(struct prop_rng *r, char text[MODEL_TEXT], struct weir_limit *limit);
/* Whether keys keep their states from one to the other. */
bool draw_keeps(const struct weir_limit *from, const struct weir_limit *to);

int64_t draw_cost(struct prop_rng *r, const struct weir_verdict *last);
int64_t draw_patience(struct prop_rng *r, const struct weir_limit *limit,
                      const struct weir_verdict *last);
/* Another now, in 0..2^62; `back`: maybe an earlier one. */
int64_t draw_now(struct prop_rng *r, const struct weir_limit *limit,
                 const struct weir_verdict *last, int64_t now_ns, bool back);

#define DRAW_KEYS 4
extern const struct weir__slice DRAW_KEY[DRAW_KEYS];
struct weir__slice draw_key(struct prop_rng *r);

/* ---- A run (scenario.c) -------------------------------------------------------------------- */

struct scenario;

enum model_kind {
    MODEL_PLAIN,   /* policies of one engine, each beside a reference of its own        */
    MODEL_SPLIT,   /* terms as policies, all or nothing, beside a reference of them all */
    MODEL_LIMITER, /* a limiter, beside a reference of one key                          */
};

/* One limit in force: as the library has it, and as the reference has it. */
struct side {
    struct script_player player;
    struct limiter_player limiter_player;
    struct reference *reference;
    char text[MODEL_TEXT]; /* the parts of a split one behind one another, by `|` */
    struct weir_limit limit;
    uint64_t resets;
    struct weir_verdict last;
};

struct scenario {
    uint64_t seed;
    struct prop_rng rng;
    enum model_kind kind;
    struct weir *w;
    int n;
    struct side side[MODEL_POLICIES];
    int64_t start_ns, now_ns;
    bool back;                   /* the clock may step back: see (5) of scenario.c */
    bool lone;                   /* there is but one key */
    bool crowded;                /* newcomers take the places of fully recovered keys */
    int parts[PLAYER_PARTS + 1]; /* split: the first term of every part, and the end */
    struct {
        int side;
        uint64_t resets; /* of the side, when it was made */
        bool shadow;     /* whether its limit had one then */
    } reservation[MODEL_STEPS];
    int reservations;
    uint64_t crowd;        /* keys of no script that were made so far */
    int64_t crowd_gone_ns; /* when all of them have fully recovered  */

    bool failed;
    char why[512];
    char lines[MODEL_LINES]; /* the script so far */
    size_t used;
};

void scenario_run(struct scenario *b, uint64_t seed);

void scenario_log(struct scenario *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void scenario_expect(struct scenario *b, bool holds, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void scenario_same(struct scenario *b, const char *what, const struct weir_verdict *want,
                   const struct weir_verdict *got);
struct sim_event scenario_take(struct scenario *b, const struct side *s);
bool scenario_reference(struct scenario *b, struct side *s, const struct sim_event *event,
                        struct sim_outcome *out);

/* Newcomers to all tables (newcomers.c). */
void scenario_crowd(struct scenario *b);

/* Steps that are more than one event (batches.c). */
void scenario_take_many(struct scenario *b);
void scenario_take_all(struct scenario *b);

#endif
