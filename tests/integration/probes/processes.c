/* Processes: their relations, credentials, limits and threads. */
#include "probe.h"
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { THREADS = 8 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static volatile unsigned long counts[THREADS];
static __thread unsigned long own;
static long whose;

/* Each in its turn: a lost wake-up stops all. */
static void *worker(void *argument)
{
	long number = (long)argument;
	char name[16];

	snprintf(name, sizeof(name), "worker-%ld", number);
	pthread_setname_np(pthread_self(), name);
	for (;;) {
		pthread_mutex_lock(&mutex);
		while (whose % THREADS != number)
			pthread_cond_wait(&turn, &mutex);
		own++;
		counts[number] = own;
		whose++;
		pthread_cond_broadcast(&turn);
		pthread_mutex_unlock(&mutex);
		usleep(2000);
	}
	return NULL;
}

static void threads(void)
{
	struct timespec rest = {0, 5000000};
	pthread_t made[THREADS];
	unsigned long before[THREADS];
	char name[16], wanted[16];
	long i;

	for (i = 0; i < THREADS; i++)
		CHECK(pthread_create(&made[i], NULL, worker, (void *)i) == 0);
	while (counts[THREADS - 1] < 3)
		nanosleep(&rest, NULL);
	captured();
	for (i = 0; i < THREADS; i++)
		before[i] = counts[i];
	for (i = 0; i < THREADS; i++) {
		while (counts[i] < before[i] + 3)
			nanosleep(&rest, NULL);
		snprintf(wanted, sizeof(wanted), "worker-%ld", i);
		CHECK(pthread_getname_np(made[i], name, sizeof(name)) == 0 && strcmp(name, wanted) == 0);
	}
}

static void zombie(void)
{
	siginfo_t info;
	int status;
	pid_t child = fork(), killed;

	if (child == 0)
		_exit(7);
	killed = fork();
	if (killed == 0)
		for (;;)
			pause();
	CHECK(kill(killed, SIGTERM) == 0);
	CHECK(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0);
	CHECK(waitid(P_PID, (id_t)killed, &info, WEXITED | WNOWAIT) == 0);
	captured();
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
	CHECK(waitpid(killed, &status, 0) == killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static void subreaper(void)
{
	int report[2], status;
	pid_t orphan, child;

	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 && pipe(report) == 0);
	child = fork();
	if (child == 0) {
		orphan = fork();
		if (orphan == 0)
			for (;;)
				pause();
		CHECK(write(report[1], &orphan, sizeof(orphan)) == sizeof(orphan));
		_exit(0);
	}
	CHECK(read(report[0], &orphan, sizeof(orphan)) == sizeof(orphan) && waitpid(child, &status, 0) == child);
	captured();
	CHECK(prctl(PR_GET_CHILD_SUBREAPER, &status, 0, 0, 0) == 0 && status == 1);
	CHECK(kill(orphan, SIGKILL) == 0 && waitpid(orphan, &status, 0) == orphan);
}

/* 200 children that answer, each on a pipe of its own. */
static void many(void)
{
	enum { MANY = 200 };
	int ask[MANY][2], answer[MANY][2], i, status, found;
	pid_t children[MANY];

	for (i = 0; i < MANY; i++) {
		CHECK(pipe2(ask[i], O_CLOEXEC) == 0 && pipe2(answer[i], O_CLOEXEC) == 0);
		children[i] = fork();
		CHECK(children[i] >= 0);
		if (children[i] == 0) {
			while (read(ask[i][0], &found, sizeof(found)) == sizeof(found)) {
				found += i;
				if (write(answer[i][1], &found, sizeof(found)) < 0)
					_exit(1);
			}
			_exit(0);
		}
		close(ask[i][0]);
		close(answer[i][1]);
	}
	captured();
	for (i = 0; i < MANY; i++) {
		found = 1000;
		CHECK(write(ask[i][1], &found, sizeof(found)) == sizeof(found));
		CHECK(read(answer[i][0], &found, sizeof(found)) == sizeof(found) && found == 1000 + i);
		CHECK(kill(children[i], SIGKILL) == 0 && waitpid(children[i], &status, 0) == children[i]);
	}
}

/* A chain of processes, each the child of the one before; a number goes down and comes up again. */
static void deep(void)
{
	enum { DEEP = 40 };
	int down[2], up[2], next[2], back[2], depth, value = 0;

	CHECK(pipe(down) == 0 && pipe(up) == 0);
	for (depth = 0; depth < DEEP; depth++) {
		CHECK(pipe(next) == 0 && pipe(back) == 0);
		if (fork() != 0)
			break;
		close(down[0]), close(down[1]), close(up[0]), close(up[1]);
		memcpy(down, next, sizeof(next));
		memcpy(up, back, sizeof(back));
		if (depth == DEEP - 1)
			for (;;) {
				if (read(down[0], &value, sizeof(value)) <= 0 || (value++, write(up[1], &value, sizeof(value)) < 0))
					_exit(1);
			}
	}
	if (depth > 0) {
		for (;;) {
			if (read(down[0], &value, sizeof(value)) <= 0 || write(next[1], &value, sizeof(value)) < 0 ||
			    read(back[0], &value, sizeof(value)) <= 0)
				_exit(1);
			value++;
			if (write(up[1], &value, sizeof(value)) < 0)
				_exit(1);
		}
	}
	captured();
	CHECK(write(next[1], &value, sizeof(value)) == sizeof(value));
	CHECK(read(back[0], &value, sizeof(value)) == sizeof(value) && value == DEEP);
}

static void pidfd(void)
{
	struct pollfd ended = {.events = POLLIN};
	siginfo_t info;
	pid_t child = fork();

	if (child == 0)
		for (;;)
			pause();
	ended.fd = (int)syscall(SYS_pidfd_open, child, 0);
	CHECK(ended.fd >= 0);
	captured();
	CHECK(poll(&ended, 1, 0) == 0);
	CHECK(syscall(SYS_pidfd_send_signal, ended.fd, SIGTERM, NULL, 0) == 0);
	CHECK(poll(&ended, 1, 30000) == 1 && waitid(P_PIDFD, (id_t)ended.fd, &info, WEXITED) == 0);
	CHECK(info.si_pid == child && info.si_status == SIGTERM);
}

static void limits(void)
{
	struct rlimit files = {300, 400}, core = {0, 0}, found;
	struct sched_param none = {0};
	cpu_set_t set;

	CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0 && setrlimit(RLIMIT_CORE, &core) == 0);
	CHECK(setpriority(PRIO_PROCESS, 0, 5) == 0 && sched_setscheduler(0, SCHED_BATCH, &none) == 0);
	umask(0137);
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
	captured();
	CHECK(getrlimit(RLIMIT_NOFILE, &found) == 0 && found.rlim_cur == 300 && found.rlim_max == 400);
	CHECK(getrlimit(RLIMIT_CORE, &found) == 0 && found.rlim_max == 0);
	CHECK(getpriority(PRIO_PROCESS, 0) == 5 && sched_getscheduler(0) == SCHED_BATCH);
	CHECK(umask(0) == 0137);
}

static void settings(void)
{
	char name[16];
	int value;

	CHECK(prctl(PR_SET_NAME, "renamed", 0, 0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGWINCH, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
	captured();
	CHECK(prctl(PR_GET_NAME, name, 0, 0, 0) == 0 && strcmp(name, "renamed") == 0);
	CHECK(prctl(PR_GET_PDEATHSIG, &value, 0, 0, 0) == 0 && value == SIGWINCH);
	CHECK(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0);
	CHECK(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1);
}

static void credentials(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}}, found[2];
	gid_t groups[] = {5, 60, 1234}, have[8];
	uid_t r, e, s;

	CHECK(prctl(PR_CAPBSET_DROP, CAP_CHOWN, 0, 0, 0) == 0);
	CHECK(setgroups(3, groups) == 0 && setresgid(33, 34, 35) == 0);
	CHECK(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0 && setresuid(1001, 1002, 1003) == 0);
	data[0].permitted = data[0].effective = data[0].inheritable = 1 << CAP_KILL;
	data[0].permitted |= 1 << CAP_SETUID;
	CHECK(syscall(SYS_capset, &header, data) == 0);
	CHECK(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0) == 0);
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	captured();
	CHECK(getresuid(&r, &e, &s) == 0 && r == 1001 && e == 1002 && s == 1003);
	CHECK(getresgid(&r, &e, &s) == 0 && r == 33 && e == 34 && s == 35);
	CHECK(getgroups(8, have) == 3 && memcmp(have, groups, sizeof(groups)) == 0);
	CHECK(syscall(SYS_capget, &header, found) == 0 && memcmp(found, data, sizeof(data)) == 0);
	CHECK(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_KILL, 0, 0) == 1);
	CHECK(prctl(PR_CAPBSET_READ, CAP_CHOWN, 0, 0, 0) == 0 && prctl(PR_CAPBSET_READ, CAP_KILL, 0, 0, 0) == 1);
	CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
}

static void filtered(void)
{
	struct sock_filter lines[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), /* the number of the call */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {4, lines};

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
	captured();
	CHECK(syscall(SYS_getppid) < 0 && errno == ENOTTY);
	CHECK(getpid() > 0);
}

static void jailed(void)
{
	int fd;

	CHECK(mkdir(path_of("jail"), 0755) == 0);
	/* The answer goes through the root from before. */
	fd = open("/", O_DIRECTORY);
	CHECK(chroot(path_of("jail")) == 0 && chdir("/") == 0 && mkdir("/inner", 0700) == 0);
	CHECK(fchdir(fd) == 0 && chroot(".") == 0);
	captured();
	CHECK(access("/srv", F_OK) == 0);
}

static void stopped(void)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		raise(SIGSTOP);
		_exit(9);
	}
	CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
	captured();
	CHECK(kill(child, SIGCONT) == 0);
	do
		CHECK(waitpid(child, &status, WUNTRACED) == child);
	while (WIFSTOPPED(status));
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 9);
}

/* The file a program runs from was replaced meanwhile, for example by an upgrade. */
static void replaced_program(void)
{
	char command[256], link[64], target[256], *arguments[] = {(char *)"sleep", (char *)"100000", NULL};
	int status;
	pid_t child;

	snprintf(command, sizeof(command), "cp /bin/sleep %s", path_of("sleep"));
	CHECK(system(command) == 0);
	child = fork();
	if (child == 0) {
		execv(path_of("sleep"), arguments);
		_exit(1);
	}
	snprintf(link, sizeof(link), "/proc/%d/exe", child);
	do
		usleep(1000);
	while (readlink(link, target, sizeof(target)) < 0 || strncmp(target, "/srv/files", 10) != 0);
	CHECK(unlink(path_of("sleep")) == 0);
	captured();
	CHECK(waitpid(child, &status, WNOHANG) == 0);
	CHECK(kill(child, SIGTERM) == 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

const struct probe PROCESS_PROBES[] = {
	{"threads", threads}, {"zombie", zombie}, {"subreaper", subreaper}, {"many", many}, {"deep", deep},
	{"pidfd", pidfd}, {"limits", limits}, {"settings", settings}, {"credentials", credentials},
	{"seccomp-filter", filtered}, {"chroot", jailed}, {"stopped", stopped},
	{"replaced-program", replaced_program}, {NULL, NULL},
};
