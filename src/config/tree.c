/* A file's YAML as nodes (libyaml).
 *
 * The parser hands over one event after the other, so nothing is built that a file may not have:
 * depth, number of nodes, anchors and references to them are bounded while it is read. A reference
 * (*name) is a copy of the node it names, which shares what is within: so a file that refers to
 * references of references takes no more memory than its own nodes, and who walks the tree by the
 * keys that there are goes no deeper than these.
 *
 * What YAML has and this file refuses: tags, merge keys (<<), several documents, keys that are not
 * plain words, a node that contains itself.
 */
#include "config/tree.h"

#include <stdlib.h>
#include <string.h>

#include <yaml.h>

struct anchor {
    const char *name;
    const struct config_node *node;
    bool temporary; /* it goes with the overrides */
};

struct tree {
    struct config *c;
    struct config_file *f;
    struct config_node *open[CONFIG_DEPTH]; /* maps and lists that are being read */
    int depth;
    int documents;
    struct anchor anchor[CONFIG_ANCHORS];
    int anchors, aliases;
};

static bool tree_blame(struct tree *t, const yaml_mark_t *at, const char *what)
{
    config_blame_at(t->c, t->f->path, (int)at->line + 1, (int)at->column + 1, "%s", what);
    return false;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static struct config_node *tree_node(struct tree *t, const yaml_event_t *e,
                                     enum config_node_kind kind)
{
    struct config_node *n;

    if (++t->c->inside->nodes > CONFIG_NODES) {
        (void)tree_blame(t, &e->start_mark, "the configuration has more than 4000000 values");
        return NULL;
    }
    n = config_take(t->c, sizeof *n);
    if (!n)
        return NULL;
    n->kind = kind;
    n->line = (int)e->start_mark.line + 1;
    n->column = (int)e->start_mark.column + 1;
    n->index = e->start_mark.index;
    n->file = t->f;
    return n;
}

/* Puts the node where the parser is. */
static bool tree_add(struct tree *t, struct config_node *n)
{
    struct config_node *in = t->depth > 0 ? t->open[t->depth - 1] : NULL;

    if (!in) {
        t->f->root = n;
        return true;
    }
    if (in->last)
        in->last->next = n;
    else
        in->first = n;
    in->last = n;
    if (in->n++ % 2 == 0 && in->kind == CONFIG_MAP && n->kind != CONFIG_SCALAR) {
        config_blame_at(t->c, t->f->path, n->line, n->column,
                        "a key must be a word, not a list or a map");
        return false;
    }
    return true;
}

static bool tree_anchor(struct tree *t, const yaml_event_t *e, const yaml_char_t *name,
                        const struct config_node *n)
{
    if (!name)
        return true;
    if (t->anchors == CONFIG_ANCHORS)
        return tree_blame(t, &e->start_mark, "more than 100 anchors (&name)");
    t->anchor[t->anchors++] =
        (struct anchor){config_copy(t->c, (const char *)name, strlen((const char *)name)), n,
                        t->c->inside->in_temporary};
    return t->anchor[t->anchors - 1].name != NULL;
}

static bool tree_tag(struct tree *t, const yaml_event_t *e, const yaml_char_t *tag)
{
    return !tag ||
           tree_blame(t, &e->start_mark, "tags (!name) are not supported: expected a plain value");
}

/* ---- Events ---------------------------------------------------------------------------------- */

static enum config_style tree_style(yaml_scalar_style_t style)
{
    switch (style) {
    case YAML_SINGLE_QUOTED_SCALAR_STYLE: return CONFIG_SINGLE;
    case YAML_DOUBLE_QUOTED_SCALAR_STYLE: return CONFIG_DOUBLE;
    case YAML_LITERAL_SCALAR_STYLE: return CONFIG_LITERAL;
    case YAML_FOLDED_SCALAR_STYLE: return CONFIG_FOLDED;
    case YAML_ANY_SCALAR_STYLE:
    case YAML_PLAIN_SCALAR_STYLE: break;
    }
    return CONFIG_PLAIN;
}

static bool tree_scalar(struct tree *t, const yaml_event_t *e)
{
    const char *text = (const char *)e->data.scalar.value;
    const size_t len = e->data.scalar.length;
    struct config_node *n;

    if (!tree_tag(t, e, e->data.scalar.tag))
        return false;
    if (len > CONFIG_TEXT)
        return tree_blame(t, &e->start_mark, "a value of more than 65536 bytes");
    if (memchr(text, '\0', len))
        return tree_blame(t, &e->start_mark, "a value with a NUL byte (\\0)");
    n = tree_node(t, e, CONFIG_SCALAR);
    if (!n)
        return false;
    n->text = config_copy(t->c, text, len);
    n->style = tree_style(e->data.scalar.style);
    n->whole = true;
    return n->text && tree_anchor(t, e, e->data.scalar.anchor, n) && tree_add(t, n);
}

static bool tree_begin(struct tree *t, const yaml_event_t *e, enum config_node_kind kind,
                       const yaml_char_t *anchor, const yaml_char_t *tag)
{
    struct config_node *n;

    if (!tree_tag(t, e, tag))
        return false;
    if (t->depth == CONFIG_DEPTH)
        return tree_blame(t, &e->start_mark, "more than 16 lists and maps within each other");
    n = tree_node(t, e, kind);
    if (!n || !tree_anchor(t, e, anchor, n) || !tree_add(t, n))
        return false;
    t->open[t->depth++] = n;
    return true;
}

/* The newest anchor of that name counts. */
static bool tree_alias(struct tree *t, const yaml_event_t *e)
{
    const char *name = (const char *)e->data.alias.anchor;
    struct config_node *n;
    int i = t->anchors - 1;

    while (i >= 0 && strcmp(t->anchor[i].name, name) != 0)
        i--;
    if (i < 0)
        return tree_blame(t, &e->start_mark, "a reference (*name) without its anchor (&name)");
    if (!t->anchor[i].node->whole)
        return tree_blame(t, &e->start_mark, "a reference to what it is part of");
    if (++t->aliases > CONFIG_ALIASES)
        return tree_blame(t, &e->start_mark, "more than 1000 references (*name)");
    n = tree_node(t, e, t->anchor[i].node->kind);
    if (!n)
        return false;
    if (t->anchor[i].temporary && !t->c->inside->in_temporary)
        t->c->inside->temporary_is_used = true;
    *n = *t->anchor[i].node; /* and its place: mistakes are there */
    n->next = NULL;
    return tree_add(t, n);
}

/* ---- Keys that come twice -------------------------------------------------------------------- */

static int tree_by_name(const void *a, const void *b)
{
    const struct config_node *x = *(struct config_node *const *)a;
    const struct config_node *y = *(struct config_node *const *)b;
    const int order = strcmp(x->text, y->text);

    return order ? order : (x->index > y->index) - (x->index < y->index);
}

static void tree_blame_twice(struct tree *t, struct config_node *key,
                             const struct config_node *first)
{
    char quoted[64];
    struct weir__out o = {quoted, sizeof quoted, 0};

    weir__out_quoted(&o, weir__slice_of(key->text));
    (void)weir__out_end(&o);
    key->again = true;
    config_blame_at(t->c, t->f->path, key->line, key->column,
                    "%s is here twice: first at line %d, column %d", quoted, first->line,
                    first->column);
}

static bool tree_end(struct tree *t)
{
    struct config_node *map = t->open[--t->depth], **keys;
    size_t n = 0;

    map->whole = true;
    if (map->kind != CONFIG_MAP || map->n < 4)
        return true;
    keys = malloc(map->n / 2 * sizeof keys[0]);
    if (!keys) {
        t->c->inside->exhausted = true;
        return false;
    }
    for (struct config_node *k = map->first; k && k->next; k = k->next->next)
        keys[n++] = k;
    qsort(keys, n, sizeof keys[0], tree_by_name);
    for (size_t i = 1, first = 0; i < n; i++)
        if (strcmp(keys[i]->text, keys[first]->text) == 0)
            tree_blame_twice(t, keys[i], keys[first]);
        else
            first = i;
    free(keys);
    return true;
}

/* Whether the value of overrides or lists comes next: its key in the file's map was read. */
static bool tree_is_temporary(const struct tree *t)
{
    const struct config_node *in = t->depth == 1 ? t->open[0] : NULL;

    return in && in->kind == CONFIG_MAP && in->n % 2 == 1 && config_is_temporary(in->last);
}

/* False: the rest is not read. */
static bool tree_event(struct tree *t, const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        return t->documents++ == 0 ||
               tree_blame(t, &e->start_mark, "a second document: expected one");
    case YAML_SCALAR_EVENT: return tree_scalar(t, e);
    case YAML_ALIAS_EVENT: return tree_alias(t, e);
    case YAML_SEQUENCE_START_EVENT:
        return tree_begin(t, e, CONFIG_LIST, e->data.sequence_start.anchor,
                          e->data.sequence_start.tag);
    case YAML_MAPPING_START_EVENT:
        return tree_begin(t, e, CONFIG_MAP, e->data.mapping_start.anchor,
                          e->data.mapping_start.tag);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: return tree_end(t);
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT: break;
    }
    return true;
}

/* ---- What is no YAML ------------------------------------------------------------------------- */

/* Bytes that are no text. */
static void tree_blame_bytes(struct tree *t, const yaml_parser_t *p)
{
    int line, column;

    config_locate(t->f, p->problem_offset, &line, &column);
    config_blame_at(t->c, t->f->path, line, column, "not valid text: %s (expected UTF-8)",
                    p->problem ? p->problem : "unreadable");
}

static void tree_blame_yaml(struct tree *t, const yaml_parser_t *p)
{
    const size_t byte = config_byte_of(t->f, p->problem_mark.index);
    const struct weir__slice rest = {t->f->bytes + byte, t->f->len - byte};
    const struct weir__slice word = {rest.at, strcspn(rest.at, " \t\r\n")};
    char near[80] = "";
    struct weir__out o = {near, sizeof near, 0};

    if (p->error == YAML_MEMORY_ERROR) {
        t->c->inside->exhausted = true;
        return;
    }
    if (p->error == YAML_READER_ERROR) {
        tree_blame_bytes(t, p);
        return;
    }
    if (rest.len > 0 && rest.at[0] == '\t') {
        (void)tree_blame(t, &p->problem_mark, "a tab: expected blanks, YAML indents with blanks");
        return;
    }
    if (word.len > 0) {
        weir__out_text(&o, " at ");
        weir__out_quoted(&o, word);
        (void)weir__out_end(&o);
    }
    config_blame_at(t->c, t->f->path, (int)p->problem_mark.line + 1,
                    (int)p->problem_mark.column + 1, "not valid YAML%s: %s%s%s", near,
                    p->problem ? p->problem : "unreadable", p->context ? ", " : "",
                    p->context ? p->context : "");
}

void config_tree(struct config *c, struct config_file *f)
{
    struct tree t = {.c = c, .f = f};
    yaml_parser_t p;
    bool more = true;

    if (!yaml_parser_initialize(&p)) {
        c->inside->exhausted = true;
        return;
    }
    yaml_parser_set_encoding(&p, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&p, (const unsigned char *)f->bytes, f->len);
    while (more) {
        yaml_event_t e;

        if (!yaml_parser_parse(&p, &e)) {
            tree_blame_yaml(&t, &p);
            break;
        }
        if (t.depth <= 1)
            c->inside->in_temporary = tree_is_temporary(&t);
        more = e.type != YAML_STREAM_END_EVENT && tree_event(&t, &e);
        yaml_event_delete(&e);
    }
    c->inside->in_temporary = false;
    yaml_parser_delete(&p);
}
