/* Root in a session that tries every attack it has, round after round, while the host works on the session.
 *
 * Nothing here needs luck with the clock: the host's side is held for as long as a round takes. The number of
 * acts is counted in memory at a fixed address (PLACE), where the host reads it, also in copies of the session; a
 * number that it writes beside it is an act that is done once: see `orders`.
 *
 *   CANARY   folder of the host at which every link aims
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PLACE ((struct shared *)0x200000000)
#define HOST "/proc/2/root" CANARY

struct shared {
	unsigned long acts, order, hit;
};

enum { PID_MAX = 1 << 22, FILES = 40 };
static unsigned char known[PID_MAX];
static pid_t victim;

static void exchange(const char *one, const char *other)
{
	syscall(SYS_renameat2, AT_FDCWD, one, AT_FDCWD, other, 2 /* RENAME_EXCHANGE */);
}

/* Every process there is; those of the first time are the session's own. */
static void each_process(void (*act)(pid_t pid))
{
	struct dirent *entry;
	DIR *proc = opendir("/proc");
	pid_t pid;

	while (proc != NULL && (entry = readdir(proc)) != NULL)
		if ((pid = atoi(entry->d_name)) > 1 && pid < PID_MAX)
			act(pid);
	if (proc != NULL)
		closedir(proc);
}

static void know(pid_t pid)
{
	known[pid] = 1;
}

/* All newer ones: CRIU, its children, those of the supervisor. */
static void signal_new(pid_t pid)
{
	static const int numbers[] = {SIGSTOP, SIGCONT, SIGTERM, SIGKILL, SIGSTOP, SIGUSR1, SIGALRM};
	static unsigned turn;

	if (!known[pid] && kill(pid, numbers[turn++ % 7]) == 0)
		PLACE->hit++;
}

static void links_in_shared_memory(void) { exchange("/dev/shm/x", "/dev/shm/y"); }
static void links_for_a_mapping(void) { exchange("/workspace/d/file", "/workspace/d/link"); }
static void links_for_a_folder(void) { exchange("/tmp/h", "/tmp/l"); }
static void links_on_the_way(void) { exchange("/workspace/d", "/workspace/e"); }
static void signals(void) { each_process(signal_new); }

static void names_in_the_shared_folder(void)
{
	static unsigned turn;

	switch (turn++ % 4) {
	case 0:
		symlink(HOST "/file", "/run/holdfast/wake.json");
		break;
	case 1:
		mkfifo("/run/holdfast/paused-00000000000000000000000000000000", 0600);
		break;
	case 2:
		symlink(HOST, "/run/holdfast/journal.new");
		break;
	default:
		unlink("/run/holdfast/wake.json");
		unlink("/run/holdfast/paused-00000000000000000000000000000000");
		unlink("/run/holdfast/journal.new");
	}
}

static void children(void)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		setsid();
		execl("/bin/true", "true", (char *)NULL);
		_exit(0);
	}
	if (child > 0)
		waitpid(child, &status, 0);
}

static void descriptors(void)
{
	static int file = -1, pipes[2] = {-1, -1}, memory = -1, pair[2] = {-1, -1};
	static unsigned turn;
	char byte;

	switch (turn++ % 6) {
	case 0:
		file = open("/tmp/h2/f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		break;
	case 1:
		if (pipe(pipes) == 0 && write(pipes[1], "pipe", 4) == 4)
			fcntl(pipes[0], F_SETOWN, victim);
		break;
	case 2:
		memory = memfd_create("hostile", 0);
		if (ftruncate(memory, 8192) == 0)
			dup2(memory, file);
		break;
	case 3:
		socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
		break;
	case 4:
		fcntl(pair[0], F_SETOWN, getpid());
		fcntl(pair[0], F_SETSIG, SIGCONT);
		fcntl(pair[0], F_SETFL, O_ASYNC);
		break;
	default:
		if (read(pipes[0], &byte, 1) < 0)
			byte = 0;
		close(file), close(pipes[0]), close(pipes[1]), close(memory);
		close(pair[0]), close(pair[1]);
		file = pipes[0] = pipes[1] = memory = pair[0] = pair[1] = -1;
	}
}

static void files(void)
{
	static unsigned turn;
	char path[64];
	int file;

	snprintf(path, sizeof(path), "/dev/shm/x/p%u", turn % FILES);
	switch (turn++ % 5) {
	case 0:
		chmod(path, 04755);
		break;
	case 1:
		unlink(path);
		break;
	case 2:
		if (symlink(HOST "/file", path) < 0)
			unlink(path);
		break;
	case 3:
		if (link("/tmp/h2/g", "/tmp/h2/link_remap.1") < 0)
			unlink("/tmp/h2/link_remap.1");
		break;
	default:
		file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0777);
		if (file >= 0 && write(file, path, sizeof(path)) < 0)
			chmod(path, 0);
		close(file);
	}
}

static void memory(void)
{
	int file = open("/tmp/h2/g", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	char *area;

	if (ftruncate(file, 8192) == 0) {
		area = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		if (area != MAP_FAILED) {
			area[0]++;
			munmap(area, 8192);
		}
	}
	close(file);
}

/* A kernel timer continues a stopped process, no matter what stopped it. */
static void timers(void)
{
	kill(victim, SIGSTOP);
	kill(victim, SIGALRM);
	kill(victim, SIGCONT);
}

static void trace(void)
{
	int status;

	if (ptrace(PTRACE_SEIZE, victim, 0, 0) == 0 && ptrace(PTRACE_INTERRUPT, victim, 0, 0) == 0) {
		waitpid(victim, &status, __WALL);
		ptrace(PTRACE_DETACH, victim, 0, 0);
	}
}

static void end_everything(void) { kill(-1, SIGKILL); }

static void stop_everything(void)
{
	kill(-1, SIGSTOP);
	kill(-1, SIGCONT);
}

static void (*const acts[])(void) = {
	links_in_shared_memory, signals, links_for_a_mapping, links_for_a_folder, children, links_on_the_way,
	names_in_the_shared_folder, descriptors, files, memory, timers,
};
static void (*const orders[])(void) = {NULL, end_everything, stop_everything, trace};
enum { ACTS = sizeof(acts) / sizeof(acts[0]), ORDERS = sizeof(orders) / sizeof(orders[0]) };

static void nothing(int number) { (void)number; }

/* Has one file mapped and an unlinked one open, in a folder that is swapped. */
static void be_victim(void)
{
	int file = open("/workspace/d/file", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	int gone = open("/tmp/h/gone", O_RDWR | O_CREAT, 0600);
	char *area;
	unsigned long turn = 0;

	signal(SIGALRM, nothing);
	if (chdir("/tmp/h") < 0 || ftruncate(file, 4096) < 0 || write(gone, "gone", 4) < 0)
		_exit(1);
	area = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	unlink("/tmp/h/gone");
	for (;;) {
		snprintf(area, 64, "WRITTEN BY A SESSION %lu", turn++);
		usleep(2000);
	}
}

static void prepare(void)
{
	char path[64];
	int each;

	mkdir("/dev/shm/x", 0755), mkdir("/workspace/d", 0755), mkdir("/tmp/h", 0755), mkdir("/tmp/h2", 0755);
	symlink(HOST, "/dev/shm/y"), symlink(HOST, "/tmp/l"), symlink(HOST, "/workspace/e");
	for (each = 0; each < FILES; each++) {
		snprintf(path, sizeof(path), "/dev/shm/x/p%d", each);
		close(open(path, O_CREAT | O_WRONLY, 04755));
	}
	close(open("/tmp/h2/g", O_CREAT | O_WRONLY, 0600));
}

int main(void)
{
	struct timespec pause = {0, 100000};
	unsigned turn;

	prepare();
	if (mmap(PLACE, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != PLACE)
		return 1;
	if ((victim = fork()) == 0)
		be_victim();
	while (access("/workspace/d/file", F_OK) != 0)
		usleep(1000);
	symlink(HOST "/file", "/workspace/d/link");
	each_process(know);
	known[victim] = known[getpid()] = 1;
	close(open("/workspace/hostile", O_CREAT | O_WRONLY, 0600));
	for (turn = 0;; turn++) {
		acts[turn % ACTS]();
		PLACE->acts++;
		if (PLACE->order > 0 && PLACE->order < ORDERS) {
			void (*order)(void) = orders[PLACE->order];

			PLACE->order = 0;
			order();
		}
		nanosleep(&pause, NULL);
	}
}
