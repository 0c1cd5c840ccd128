/* What a process may be doing when it is killed. */
#ifndef WEIR_TESTS_SCENES_H
#define WEIR_TESTS_SCENES_H

#include "folder.h"
#include "image.h"
#include "probe.h"

#define SCENE_REQUESTS 3

struct scene;

/* A small store, so that keys share buckets, as its scene finds it. */
struct scene_store {
    const struct scene *scene;
    struct weir *w;
    char store[FOLDER_PATH], path[FOLDER_PATH];
    struct image_file file;
    struct weir_request rq[SCENE_REQUESTS];
    struct weir_request wide[WEIR_TERMS_MAX]; /* the most that one call may request */
    size_t wides;
    struct weir_reservation reservation;
    uint64_t estimate;
};

struct scene {
    const char *name;
    /* The deed; of a batch the first `parts` of it. 0, or an error that fails the test. */
    int (*act)(struct scene_store *b, int parts);
    struct {
        enum probe_policy policy;
        int key;
    } of[SCENE_REQUESTS];                   /* whom it asks for */
    void (*prepare)(struct scene_store *b); /* what comes before, beyond the usual; may be NULL */
    int parts;                              /* in how many steps it may be seen to happen; 0: one */
    uint64_t max_keys;                      /* 0: enough */
    int charged;   /* keys of each policy that are in use beforehand; 0: three */
    bool evicts;   /* a live key makes place */
    bool unseated; /* no process has decided yet, and become an owner */
};

extern const struct scene scenes[];
extern const int scenes_count;

/* Makes the store and sets the scene; removes it. */
void scene_open(struct scene_store *b, const struct scene *s);
void scene_close(struct scene_store *b);

#endif
