/* Files: open in odd ways, locked, without a name, watched. */
#include "probe.h"
#include <sys/file.h>
#include <sys/inotify.h>

static int made(const char *path, const char *text)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	return fd;
}

static void holds(int fd, const char *text)
{
	char found[64] = "";

	CHECK(pread(fd, found, sizeof(found) - 1, 0) == (ssize_t)strlen(text));
	CHECK(strcmp(found, text) == 0);
}

static void flags(void)
{
	const char *path = path_of("plain");
	int fd = made(path, "0123456789"), append = open(path, O_WRONLY | O_APPEND | O_NONBLOCK);
	int twin = dup2(fd, 900), only = open(path, O_PATH | O_CLOEXEC), folder = open("/srv", O_DIRECTORY);
	int null = open("/dev/null", O_RDWR), random = open("/dev/urandom", O_RDONLY), text = open("/proc/self/status", O_RDONLY);
	struct stat a, b;
	char byte;

	CHECK(lseek(fd, 4, SEEK_SET) == 4);
	captured();
	CHECK(lseek(twin, 0, SEEK_CUR) == 4 && lseek(fd, 5, SEEK_SET) == 5 && lseek(twin, 0, SEEK_CUR) == 5);
	CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC && fcntl(twin, F_GETFD) == 0);
	CHECK((fcntl(append, F_GETFL) & (O_APPEND | O_NONBLOCK | O_ACCMODE)) == (O_APPEND | O_NONBLOCK | O_WRONLY));
	CHECK(write(append, "x", 1) == 1);
	holds(fd, "0123456789x");
	CHECK(fstat(only, &a) == 0 && stat(path, &b) == 0 && a.st_ino == b.st_ino && (fcntl(only, F_GETFL) & O_PATH));
	CHECK(fstatat(folder, "probes", &a, 0) == 0);
	CHECK(write(null, "x", 1) == 1 && read(random, &byte, 1) == 1 && read(text, &byte, 1) == 1);
}

/* Locks on a file, as another process sees them. */
static int locked_for_others(const char *path, struct flock *lock)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		int fd = open(path, O_RDWR);

		_exit(fcntl(fd, F_GETLK, lock) < 0 ? 2 : lock->l_type != F_UNLCK);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void posix_lock(void)
{
	const char *path = path_of("lock");
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 2, .l_len = 3}, other = lock;
	int fd = made(path, "0123456789");

	CHECK(fcntl(fd, F_SETLK, &lock) == 0);
	captured();
	CHECK(locked_for_others(path, &lock) == 1);
	other.l_start = 5;
	CHECK(locked_for_others(path, &other) == 0);
}

static void flock_lock(void)
{
	const char *path = path_of("lock");
	int fd = made(path, "x"), other;

	CHECK(flock(fd, LOCK_EX) == 0);
	captured();
	other = open(path, O_RDWR);
	CHECK(flock(other, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK);
	CHECK(flock(fd, LOCK_UN) == 0 && flock(other, LOCK_SH | LOCK_NB) == 0);
}

static void ofd_lock(void)
{
	const char *path = path_of("lock");
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd = made(path, "x"), other;

	CHECK(fcntl(fd, F_OFD_SETLK, &lock) == 0);
	captured();
	other = open(path, O_RDWR);
	CHECK(fcntl(other, F_OFD_SETLK, &lock) < 0 && errno == EAGAIN);
	CHECK(close(fd) == 0 && fcntl(other, F_OFD_SETLK, &lock) == 0);
}

static void lease(void)
{
	int fd;

	close(made(path_of("lease"), "x"));
	fd = open(path_of("lease"), O_RDONLY);
	CHECK(fcntl(fd, F_SETLEASE, F_RDLCK) == 0);
	captured();
	CHECK(fcntl(fd, F_GETLEASE) == F_RDLCK);
}

static void unlinked(void)
{
	const size_t large = 20u << 20;
	int small = made(path_of("small"), "nameless"), big = made(path_of("big"), "big"), i;
	char *shared, block[4096];

	CHECK(ftruncate(big, (off_t)large) == 0);
	for (i = 0; i < 1024; i++) {
		memset(block, i, sizeof(block));
		CHECK(pwrite(big, block, sizeof(block), (off_t)i * 8192 + 4096) == sizeof(block));
	}
	shared = mmap(NULL, large, PROT_READ | PROT_WRITE, MAP_SHARED, big, 0);
	CHECK(shared != MAP_FAILED);
	CHECK(unlink(path_of("small")) == 0 && unlink(path_of("big")) == 0);
	shared[large - 1] = 'z';
	captured();
	holds(small, "nameless");
	for (i = 0; i < 1024; i++)
		CHECK(shared[i * 8192 + 4096] == (char)i && shared[i * 8192 + 8191] == (char)i);
	CHECK(shared[large - 1] == 'z' && memcmp(shared, "big", 3) == 0);
	shared[1] = 'a';
	CHECK(pread(big, block, 3, 0) == 3 && block[1] == 'a');
}

static void gone_folder(void)
{
	char found[256];
	int folder;

	CHECK(mkdir(path_of("folder"), 0755) == 0 && chdir(path_of("folder")) == 0);
	folder = open(".", O_DIRECTORY);
	CHECK(rmdir(path_of("folder")) == 0);
	captured();
	CHECK(getcwd(found, sizeof(found)) == NULL && errno == ENOENT);
	CHECK(openat(folder, "x", O_CREAT | O_RDWR, 0644) < 0 && errno == ENOENT);
}

static void replaced(void)
{
	int fd = made(path_of("old"), "old"), other = made(path_of("new"), "new");

	CHECK(rename(path_of("new"), path_of("old")) == 0);
	captured();
	holds(fd, "old");
	holds(other, "new");
	CHECK(pwrite(fd, "OLD", 3, 0) == 3);
	holds(other, "new");
}

static void watched(void)
{
	char buffer[4096] __attribute__((aligned(8)));
	struct inotify_event *event = (void *)buffer;
	int notify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), folder, file, fd;

	fd = made(path_of("file"), "x");
	CHECK(mkdir(path_of("folder"), 0755) == 0);
	folder = inotify_add_watch(notify, path_of("folder"), IN_CREATE | IN_DELETE);
	file = inotify_add_watch(notify, path_of("file"), IN_MODIFY);
	CHECK(folder > 0 && file > 0 && chdir(path_of("folder")) == 0);
	captured();
	while (read(notify, buffer, sizeof(buffer)) > 0)
		; /* The restore itself may have left some. */
	CHECK(write(fd, "y", 1) == 1);
	CHECK(read(notify, buffer, sizeof(buffer)) > 0 && event->wd == file && event->mask == IN_MODIFY);
	close(made("created", ""));
	CHECK(read(notify, buffer, sizeof(buffer)) > 0 && event->wd == folder && event->mask == IN_CREATE);
	CHECK(strcmp(event->name, "created") == 0);
	CHECK(inotify_rm_watch(notify, file) == 0);
}

/* An open namespace is the one its process is in now. */
static void namespaces(void)
{
	static const char *const names[] = {"/proc/self/ns/net", "/proc/self/ns/mnt", "/proc/self/ns/pid"};
	struct stat open_one, own;
	int fds[3], i;

	for (i = 0; i < 3; i++)
		CHECK((fds[i] = open(names[i], O_RDONLY | O_CLOEXEC)) >= 0);
	captured();
	for (i = 0; i < 3; i++)
		CHECK(fstat(fds[i], &open_one) == 0 && stat(names[i], &own) == 0 && open_one.st_ino == own.st_ino);
}

const struct probe FILE_PROBES[] = {
	{"flags", flags}, {"posix-lock", posix_lock}, {"flock", flock_lock}, {"ofd-lock", ofd_lock},
	{"lease", lease}, {"unlinked", unlinked}, {"gone-folder", gone_folder}, {"replaced", replaced},
	{"inotify", watched}, {"namespaces", namespaces}, {NULL, NULL},
};
