/* inotify: watched files and folders stay watched, by the same numbers. */
#include "probe.h"
#include <sys/inotify.h>

static int watcher, file_watch, folder_watch;

static void setup(void) {
    watcher = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    MUST(watcher >= 0);
    mkdir("watched", 0700);
    close(open("one", O_RDWR | O_CREAT, 0600));
    file_watch = inotify_add_watch(watcher, "one", IN_MODIFY);
    folder_watch = inotify_add_watch(watcher, "watched", IN_CREATE | IN_DELETE);
    MUST(file_watch > 0 && folder_watch > 0);
}

static void step(void) {
    char buffer[4096] __attribute__((aligned(8)));
    int fd = open("one", O_WRONLY | O_TRUNC), seen = 0, tries = 0;
    if (write(fd, "x", 1) != 1) FAULT("cannot write");
    close(fd);
    close(open("watched/new", O_RDWR | O_CREAT, 0600));
    unlink("watched/new");
    while (seen != 7 && tries++ < 1000) {
        ssize_t size = read(watcher, buffer, sizeof buffer);
        for (char *at = buffer; size > 0 && at < buffer + size;) {
            struct inotify_event *event = (struct inotify_event *)at;
            if (event->wd == file_watch && event->mask & IN_MODIFY) seen |= 1;
            if (event->wd == folder_watch && event->mask & IN_CREATE) seen |= 2;
            if (event->wd == folder_watch && event->mask & IN_DELETE) seen |= 4;
            at += sizeof *event + event->len;
        }
        if (seen != 7) rest_ms(1);
    }
    if (seen != 7) FAULT("seen only %d of what happened, in round %ld", seen, rounds);
}
