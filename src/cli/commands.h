/* The commands. Each gets its arguments without the names of the program and of the command, and
 * returns the exit status: 0 done, 1 failed, 2 usage; `take` has its own. */
#ifndef WEIR_CLI_COMMANDS_H
#define WEIR_CLI_COMMANDS_H

#include <stdbool.h>
#include <stdint.h>

int sim_command(int argc, char **argv);
int explain_command(int argc, char **argv);
int store_command(int argc, char **argv);
int serve_command(int argc, char **argv);
int take_command(int argc, char **argv);
int check_command(int argc, char **argv);
int replay_command(int argc, char **argv);
int advise_command(int argc, char **argv);
int demo_command(int argc, char **argv);

#define SERVE_CONFIG "/etc/weir/weir.yaml" /* read by `weir serve` if it is there */

/* Whether standard output is a terminal that wants colours (terminal.c). */
bool cli_colour(void);

/* The progress of what takes long: a line on standard error, if that is a terminal. */
struct cli_progress {
    int64_t began_s, shown_s;
};
/* True, at most once a second, from two seconds after the first call: the caller prints a line. */
bool cli_progress_due(struct cli_progress *p);
/* Prints the line in the place of the one before. */
void cli_progress_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Takes the line away. */
void cli_progress_end(struct cli_progress *p);

/* An argument as a message may quote it: without what may be a password. The text is valid for two
 * calls: until the next but one. */
const char *cli_redacted(const char *word);

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

#endif
