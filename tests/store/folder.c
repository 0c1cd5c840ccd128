/* A directory for one test program, removed when it exits. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"

static char made[200];
static pid_t maker;

static void remove_all(void)
{
    struct dirent *e;
    DIR *d;

    if (getpid() != maker || !(d = opendir(made)))
        return;
    while ((e = readdir(d)) != NULL) {
        char path[600];

        (void)snprintf(path, sizeof path, "%s/%s", made, e->d_name);
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && unlink(path) != 0)
            (void)rmdir(path);
    }
    (void)closedir(d);
    (void)rmdir(made);
}

static void leave(int sig)
{
    (void)sig;
    if (getpid() == maker)
        remove_all();
    _exit(2);
}

void folder_open(void)
{
    const char *tmp = getenv("TMPDIR");

    if (!tmp)
        tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(made, sizeof made, "%s/weir-store-XXXXXX", tmp);
    if (!mkdtemp(made)) {
        perror(made);
        exit(2);
    }
    maker = getpid();
    (void)atexit(remove_all);
    (void)signal(SIGTERM, leave);
    (void)signal(SIGINT, leave);
}

const char *folder(void)
{
    return made;
}

void folder_path(char out[FOLDER_PATH], const char *name)
{
    (void)snprintf(out, FOLDER_PATH, "%s/%s", made, name);
}

void folder_store(char out[FOLDER_PATH], const char *name)
{
    (void)snprintf(out, FOLDER_PATH, "file:%s/%s", made, name);
}

int folder_count(void)
{
    DIR *d = opendir(made);
    int n = 0;

    while (d && readdir(d))
        n++;
    if (d)
        (void)closedir(d);
    return n - 2;
}
