/* Commands and their options as data.
 *
 * options.c reads command lines by these tables, help.c prints `--help` from them, and describe.c
 * with scripts/cli_docs.py makes the man page and the completions of bash, zsh and fish. A
 * paragraph that begins with a blank is printed as it is. Each command has its table beside the
 * code that uses the values: serve_options.c, sim_options.c and so on.
 */
#ifndef WEIR_CLI_OPTIONS_H
#define WEIR_CLI_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <weir.h>

enum option_kind {
    OPTION_FLAG,     /* no value: a bool becomes true                         */
    OPTION_TEXT,     /* any text but an empty one                             */
    OPTION_CHOICE,   /* one of the words of `value` (a|b|c), as its index     */
    OPTION_COUNT,    /* a whole number; k and M may follow                    */
    OPTION_BYTES,    /* 65536, 64KiB, 1MiB, 1GiB                              */
    OPTION_DURATION, /* 500ms, 1m30s, in ns                                   */
    OPTION_PATIENCE, /* a duration, or `forever`                              */
    OPTION_PART,     /* 1/16, as 16; 1 is all                                 */
    OPTION_OTHER,    /* its `set` reads the value                             */
};

/* What the value of an option, or an operand, may be: for completions. Or NULL. */
#define COMPLETE_FILE    "<file>"
#define COMPLETE_LIMIT   "<limit>"
#define COMPLETE_TRAFFIC "<traffic>"
#define COMPLETE_STORE   "memory: file:/ redis:// redis+unix:/"

struct option {
    const char *name;  /* "--json"; "cost=" is an operand with a name */
    const char *value; /* "N", or the words of a choice; NULL: a flag */
    enum option_kind kind;
    size_t at, size; /* its field in the command's struct */
    int64_t least, most;
    unsigned times;         /* how often it may be given; 0: any number, the last one counts */
    const char *expected;   /* what follows "expected" in messages */
    const char *by_default; /* the default; NULL: none */
    const char *completes;  /* words, or COMPLETE_* */
    const char *help;
    /* OPTION_OTHER: reads the value. False: the value is wrong; *why says more than `expected`, or
     * stays empty. */
    bool (*set)(void *to, char *value, struct weir_diag *why);
};
#define OPTION_AT(type, field) \
    .at = offsetof(struct type, field), .size = sizeof(((struct type *)NULL)->field)
#define OPTIONS_MAX 64 /* of one command */
/* How many operands a command has, and how messages describe them. */
#define OPERANDS(least, most, expected) \
    .words_least = (least), .words_most = (most), .words_expected = (expected)

/* A list of texts. */
#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

struct operand {
    const char *name, *help;
    const char *completes;
};

struct command {
    const char *name; /* all its words: "store info"; "" is weir itself */
    const char *summary;
    const char *usage;                  /* what follows the name */
    const char *const *about;           /* paragraphs */
    const struct operand *operands;     /* this list and the next end with an all-zero entry */
    const struct option *options;       /* without --help, which every command has */
    const char *const *examples;        /* command lines */
    const char *const *statuses;        /* "0 done" */
    const struct command *const *parts; /* commands within this one */
    int words_least, words_most;        /* operands */
    bool dash_words;                    /* operands may begin with one dash: keys */
    const char *words_expected;         /* what follows "expected" in messages */
    int (*run)(int argc, char **argv);  /* returns the exit status */
};

/* Reads the options into *to and moves the operands to the front of argv. Returns the number of
 * operands, or -1: the command line is wrong, and a message has been printed. After "--" no word is
 * an option. */
int options_read(const struct command *c, void *to, int argc, char **argv);
/* The same; seen[i] becomes true if the i-th option was given. */
int options_read_seen(const struct command *c, void *to, bool *seen, int argc, char **argv);
/* Sets one option in *to (a flag: the value is NULL). False: *why says what was expected. */
bool options_set(const struct option *o, void *to, char *value, struct weir_diag *why);
/* Prints that this operand is one too many; returns false. */
bool options_unexpected(const struct command *c, const char *word);
/* "; did you mean 'x'?" for a word that is nearly one of the names, or "". name() returns NULL
 * after the last name. The text is valid until the next call. */
const char *options_near(const char *word, const char *(*name)(const void *of, size_t i),
                         const void *of);

/* Prints the help of a command. */
void help_print(const struct command *c, FILE *to);
/* Prints paragraphs, with an empty line before each; and the examples. */
void help_paragraphs(FILE *to, const char *const *text);
void help_examples(FILE *to, const char *const *examples);
/* Prints one entry of a list in lines of `columns`: the name in a column of `width` (on a line of
 * its own if it is longer), and the text beside it. */
void help_entry(FILE *to, const char *name, const char *text, int width, int columns);
/* Prints the table and the grammar of limits, for programs. */
void describe_print(const struct command *root);

extern const struct command SERVE_COMMAND, TAKE_COMMAND, SIM_COMMAND, EXPLAIN_COMMAND;
extern const struct command CHECK_COMMAND, REPLAY_COMMAND, ADVISE_COMMAND, DEMO_COMMAND;
extern const struct command STORE_COMMAND, STORE_INFO_COMMAND, STORE_CONVERT_COMMAND;
extern const struct command STORE_RESET_COMMAND;
extern const struct command PEEK_COMMAND, CHARGE_COMMAND, RESERVE_COMMAND, COMMIT_COMMAND;
extern const struct command CANCEL_COMMAND, ENTER_COMMAND, EXIT_COMMAND, REFUND_COMMAND;
extern const struct command RESET_COMMAND, LIMIT_COMMAND, OVERRIDE_COMMAND, LIST_COMMAND;
extern const struct command STATS_COMMAND, PING_COMMAND, RELOAD_COMMAND, RUN_COMMAND, PACE_COMMAND;

#endif
