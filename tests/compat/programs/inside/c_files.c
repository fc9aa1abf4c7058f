/* Open files: locks of three kinds, files without a name or renamed, shared offsets, holes, listings. */
#include "probe.h"
#include <dirent.h>
#include <sys/file.h>
#include <sys/wait.h>

static int posix_fd, flock_fd, ofd_fd, nameless, shared, appended, folder, unlinked_folder_file, renamed[2];
static char here[200];
static DIR *listing;

static void setup(void) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
    posix_fd = open("posix", O_RDWR | O_CREAT, 0600);
    MUST(!fcntl(posix_fd, F_SETLK, &whole));
    ofd_fd = open("ofd", O_RDWR | O_CREAT, 0600);
    MUST(!fcntl(ofd_fd, F_OFD_SETLK, &whole));
    flock_fd = open("flock", O_RDWR | O_CREAT, 0600);
    MUST(!flock(flock_fd, LOCK_EX));
    nameless = open("nameless", O_RDWR | O_CREAT, 0600);
    MUST(nameless >= 0 && !unlink("nameless"));
    MUST(pwrite(nameless, "begin", 5, 0) == 5 && pwrite(nameless, "end", 3, 3 << 20) == 3);
    mkdir("gone", 0700);
    unlinked_folder_file = open("gone/file", O_RDWR | O_CREAT, 0600);
    MUST(unlinked_folder_file >= 0 && write(unlinked_folder_file, "kept", 4) == 4);
    MUST(!unlink("gone/file") && !rmdir("gone"));
    /* Like POSIX semaphores: opened by one name, known by another. */
    snprintf(here, sizeof here, "/dev/shm/probe-%d", getpid());
    const char *opened[2] = {here, "opened"};
    for (int n = 0; n < 2; n++) {
        char other[220];
        snprintf(other, sizeof other, "%s-otherwise", opened[n]);
        unlink(other);
        renamed[n] = open(opened[n], O_RDWR | O_CREAT | O_TRUNC, 0600);
        MUST(renamed[n] >= 0 && write(renamed[n], "same", 4) == 4);
        MUST(!link(opened[n], other) && !unlink(opened[n]));
    }
    shared = open("shared", O_RDWR | O_CREAT | O_TRUNC, 0600);
    appended = open("appended", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    folder = open(".", O_RDONLY | O_DIRECTORY);
    listing = opendir("/usr/bin");
    MUST(listing && readdir(listing));
}

/* Return whether another process finds the file locked. */
static int locked_for_others(const char *name, int kind) {
    pid_t child = fork();
    if (child == 0) {
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
        int fd = open(name, O_RDWR);
        int taken = kind == 0 ? fcntl(fd, F_SETLK, &whole) : kind == 1 ? fcntl(fd, F_OFD_SETLK, &whole)
                                                                       : flock(fd, LOCK_EX | LOCK_NB);
        _exit(taken == -1 && (errno == EAGAIN || errno == EACCES || errno == EWOULDBLOCK) ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status) == 1;
}

static void step(void) {
    char text[8] = "";
    EXPECT(locked_for_others("posix", 0));
    EXPECT(locked_for_others("ofd", 1));
    EXPECT(locked_for_others("flock", 2));
    EXPECT(pread(nameless, text, 5, 0) == 5 && !memcmp(text, "begin", 5));
    EXPECT(pread(nameless, text, 3, 3 << 20) == 3 && !memcmp(text, "end", 3));
    EXPECT(pread(nameless, text, 4, 1 << 20) == 4 && !memcmp(text, "\0\0\0\0", 4));
    EXPECT(pread(unlinked_folder_file, text, 4, 0) == 4 && !memcmp(text, "kept", 4));
    for (int n = 0; n < 2; n++) EXPECT(pread(renamed[n], text, 4, 0) == 4 && !memcmp(text, "same", 4));
    struct stat about;
    EXPECT(!fstat(nameless, &about) && about.st_nlink == 0);
    EXPECT(lseek(shared, 0, SEEK_CUR) == rounds);
    pid_t child = fork();
    if (child == 0) _exit(write(shared, "x", 1) != 1);
    waitpid(child, NULL, 0);
    EXPECT(lseek(shared, 0, SEEK_CUR) == rounds + 1);
    EXPECT(write(appended, "y", 1) == 1);
    EXPECT(!fstat(appended, &about) && about.st_size == rounds + 1);
    EXPECT(!fstatat(folder, "shared", &about, 0) && about.st_size == rounds + 1);
    if (!readdir(listing)) rewinddir(listing);
}
