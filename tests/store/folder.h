/* A directory for one test program, removed with everything in it when the program exits. */
#ifndef WEIR_TESTS_FOLDER_H
#define WEIR_TESTS_FOLDER_H

#define FOLDER_PATH 300

/* Made in $TMPDIR, or in memory where there is such a file system. Only the process that made it
 * removes it, when it exits. */
void folder_open(void);
const char *folder(void);
/* The path of a file in it, and the store that this is. */
void folder_path(char out[FOLDER_PATH], const char *name);
void folder_store(char out[FOLDER_PATH], const char *name);
/* How many files are in it. */
int folder_count(void);

#endif
